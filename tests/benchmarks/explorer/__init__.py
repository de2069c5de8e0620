"""Figures of the explorer's page."""
