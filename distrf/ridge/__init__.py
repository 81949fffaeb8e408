"""Ridge regression on passes: the Gram matrix and its solutions, conjugate gradients, the path over penalties."""
