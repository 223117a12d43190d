"""Additions to furlkit: an objective, an encoder and a dataset."""
