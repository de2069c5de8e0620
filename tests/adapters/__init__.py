"""Tests that run in environments of their own, beside the package that they are about: ``make adapters``."""
