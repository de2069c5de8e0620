"""Policy weights as checked safetensors bytes."""
