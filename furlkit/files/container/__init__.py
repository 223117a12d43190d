"""Reading and writing safetensors, and what seals a file."""
