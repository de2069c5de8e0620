"""What evaluations measure of a game besides its result: ranks, orders and supports."""
