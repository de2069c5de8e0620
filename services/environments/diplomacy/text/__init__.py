"""How a game of Diplomacy is written: compact notation, chat prompts, and the language of both."""
