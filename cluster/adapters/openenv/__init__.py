"""Our worlds as an OpenEnv server."""
