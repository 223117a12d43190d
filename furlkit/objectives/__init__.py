"""What one batch minimises: pure functions from tensors to a scalar."""
