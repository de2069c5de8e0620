"""Experiment trackers (TensorBoard, wandb, trackio) that record a run beside its own files, each in its own process."""
