"""Whole jobs on local workers: wall time and memory."""
