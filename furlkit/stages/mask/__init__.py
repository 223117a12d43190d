"""mask: keys of sites, and uploads that only reveal a sum."""
