"""Estimates with their uncertainty, how two of them differ, whether that is chance, and when to stop sampling."""
