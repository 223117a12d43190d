"""What the server makes of the clients' uploads; see `uploads.Uploads` for models."""
