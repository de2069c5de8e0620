"""The vLLM engine: requests, weight updates in place, adapters and the legal-move mask."""
