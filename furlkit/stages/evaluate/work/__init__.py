"""Computations of the protocols, with torch; imported if scores must be made."""
