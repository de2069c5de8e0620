"""Tables of players that are evaluated or compared: which games they play, and the processes that play them."""
