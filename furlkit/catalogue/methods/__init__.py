"""Entries of methods: a module for each family."""
