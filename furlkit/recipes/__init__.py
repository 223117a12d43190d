"""Recipes: read a recipe, expand a recipe into steps, print a plan, show the status."""
