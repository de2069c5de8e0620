"""What is chosen, what was recorded, and what follows from both."""
