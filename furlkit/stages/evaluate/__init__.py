"""evaluate: one module for each protocol."""
