"""One catalogue of metrics and the places they go: Prometheus, JSONL, the terminal."""
