"""Measurements, one command each: `python -m benchmarks` lists them."""
