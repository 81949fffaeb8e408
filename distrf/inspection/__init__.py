"""What a fitted model makes of its columns."""
