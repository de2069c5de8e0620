"""The arithmetic of ``grpo_core`` in the browser."""
