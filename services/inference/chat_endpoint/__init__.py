"""The client of chat models behind OpenAI-compatible endpoints."""
