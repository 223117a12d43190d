"""Encoders, heads and nets; from checkpoint to net and back."""
