"""What a job will cost, composed from what the objects that will run say of themselves."""
