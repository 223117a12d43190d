"""What is added to any objective."""
