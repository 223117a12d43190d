"""Rules that combine the clients' uploads; see `uploads.Uploads` for models."""
