"""Pictures, one module for each kind."""
