"""Players: the protocol, language-model policies and chat models."""
