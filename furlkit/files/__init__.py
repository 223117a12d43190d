"""Files exchanged by stages: one module per kind, independent of methods."""
