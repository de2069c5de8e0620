"""What the training loop calls on; the packages in here do not import one another."""
