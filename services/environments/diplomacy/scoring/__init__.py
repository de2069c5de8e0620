"""What a game is worth: scores of final centres, rewards of a seat, and measured strengths of bots and countries."""
