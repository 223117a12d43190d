"""The only training loop, what drives it, optimisers and signals."""
