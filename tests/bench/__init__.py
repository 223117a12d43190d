"""Benchmarks; see `python -m tests.bench`."""
