"""Tasks with several seats as PettingZoo's parallel environments, for other libraries."""
