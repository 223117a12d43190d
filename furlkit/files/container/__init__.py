"""Reading and writing of safetensors files, and the hashes that seal the files."""
