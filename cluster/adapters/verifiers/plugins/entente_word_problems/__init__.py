"""Word problems for ``verifiers``: ``vf-eval entente-word-problems``."""

from cluster.adapters.verifiers.chat import ChatHarness
from cluster.adapters.verifiers.word_problems import WordProblemTaskset

__all__ = ["ChatHarness", "WordProblemTaskset"]
