"""Policies of a few thousand weights over vectors, for tasks in which a run takes minutes."""
