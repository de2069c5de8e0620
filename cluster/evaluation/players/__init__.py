"""Opens players by the names that users give: bots, checkpoints, runs, members of a population, remote players."""
