"""The rooms: one module a subcommand. Open doors, call methods, close doors."""
