"""Answers to word problems from a trained policy: its instruction variants are agents, alone and together."""
