"""What a player might have written instead: order sheets and single orders with their probabilities."""
