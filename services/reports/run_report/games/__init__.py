"""The saved games of a run, and which of them are worth a look."""
