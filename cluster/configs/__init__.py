"""The configuration: its schema, its loader, its reference and the shipped TOML files."""
