"""Divide a dataset among clients."""
