"""Who sits at the table: policies, bots, the versioned population, matchmaking and the table itself."""
