"""Inference engines behind one protocol, and the masks that let them write only legal orders."""
