"""Checks of a machine, a config or a run (doctor), and audits of grouping."""
