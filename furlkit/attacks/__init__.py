"""Equations of hostile clients, for research: an attack is a function of updates."""
