"""Scores of predictions: small sums that add up over blocks of rows (number code), and the passes that make them."""
