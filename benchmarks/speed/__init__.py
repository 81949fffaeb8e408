"""How fast maps and subspaces are made."""
