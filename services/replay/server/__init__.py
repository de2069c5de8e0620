"""The embedded Redis-protocol server that a run starts for itself."""
