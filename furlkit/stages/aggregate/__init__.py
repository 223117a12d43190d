"""aggregate: one module for each kind of upload."""
