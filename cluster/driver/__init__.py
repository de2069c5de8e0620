"""The driver of a run: rollout actors, schedule of blocks, admission, scaling and metrics."""
