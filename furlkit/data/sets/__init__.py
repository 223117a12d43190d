"""Datasets by name, folder, .npz or packed file."""
