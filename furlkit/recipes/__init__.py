"""Recipes: reading them, expanding them into steps, printing a plan, and status."""
