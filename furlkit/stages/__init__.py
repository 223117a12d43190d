"""Subcommands, a module or folder each: open inputs, call methods, write."""
