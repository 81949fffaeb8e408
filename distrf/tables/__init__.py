"""What one pass learns of the columns of a table: their quantiles and their frequent values."""
