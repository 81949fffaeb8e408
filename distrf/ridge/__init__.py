"""Ridge regression on passes: the Gram matrix and its solutions."""
