"""Scores of a representation: features and labels in, numbers out."""
