"""Feature maps of kernels beside each other and those of scikit-learn."""
