"""Attacks on privacy that audits run: equations on arrays, and the success in numbers."""
