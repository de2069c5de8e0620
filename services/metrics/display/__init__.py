"""The live terminal display of a run."""
