"""What one pass learns of the columns of a table: sketches of their quantiles and of their frequent values."""
