"""plot: one module for each picture."""
