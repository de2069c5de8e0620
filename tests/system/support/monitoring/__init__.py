"""A real Prometheus, what feeds each panel, and a Ray that reports a GPU."""
