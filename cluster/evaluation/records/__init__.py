"""What is recorded or shown of games beside their result: who played, prompts, decisions, a board in the terminal."""
