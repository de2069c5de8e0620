"""Scripted players: hold, random, greedy and DumbBot."""
