"""The compact press language as plain English, and by rules from it."""
