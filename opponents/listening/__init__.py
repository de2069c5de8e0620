"""Listeners: policies that predict what partners will do after what they have said."""
