"""``entente play --web``: a server for games of people against policies in the browser."""
