"""What is wrong with a machine, a config or a run, and what grouping does: doctor and audits."""
