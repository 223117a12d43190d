"""Opening what a stage was given, and checking that it fits together."""
