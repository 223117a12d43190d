"""Encoders, heads, and the nets they make; from checkpoint to net and back."""
