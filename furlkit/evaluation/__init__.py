"""What a representation is worth: features and labels in, numbers out."""
