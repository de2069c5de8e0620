"""What is played: worlds, and the contract that all of them keep."""
