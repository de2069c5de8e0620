"""Who decides for a country: the protocol, language-model policies and chat models."""
