"""Models: solvers beside exact ones and those of scikit-learn."""
