"""Gradients of several groups: surgery between them, and how good a batch's gradient is."""
