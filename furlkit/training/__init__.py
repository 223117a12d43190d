"""The only training loop, its driver, optimisers and signals."""
