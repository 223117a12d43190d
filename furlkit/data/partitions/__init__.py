"""How a dataset is divided among clients."""
