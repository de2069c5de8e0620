"""Diplomacy for ``verifiers``: ``vf-eval entente-diplomacy``."""

from cluster.adapters.verifiers.chat import ChatHarness
from cluster.adapters.verifiers.diplomacy import DiplomacyEnv, DiplomacyTaskset

__all__ = ["ChatHarness", "DiplomacyEnv", "DiplomacyTaskset"]
