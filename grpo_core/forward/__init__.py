"""The policy's forward pass in training: log-probabilities, a chunked vocabulary head and fast layers."""
