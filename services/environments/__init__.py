"""Environments: full seven-power Diplomacy."""
