"""The same work done by distrf and by others, each in a Python of its own."""
