"""The torch engine: continuous batching over one model, on CPU or GPU."""
