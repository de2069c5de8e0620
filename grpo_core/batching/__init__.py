"""From turns to token-budget micro-batches, minibatches and each token's weight in the loss."""
