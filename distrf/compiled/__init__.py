"""The loops that cost most of the time, compiled by Numba: each runs on one core, without Python's global lock."""
