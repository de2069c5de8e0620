"""TRL's ``GRPOTrainer`` on our episodes."""
