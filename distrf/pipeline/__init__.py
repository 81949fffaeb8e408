"""One public way to a good model: what is chosen from a sample of rows, and the training that follows."""
