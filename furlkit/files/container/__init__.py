"""Reading and writing safetensors files, and the hashes that seal them."""
