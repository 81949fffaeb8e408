"""What a plan says beside what a job takes, and how both grow."""
