"""One module or folder for each subcommand: open inputs, call methods, write."""
