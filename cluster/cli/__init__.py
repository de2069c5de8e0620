"""The command line: one file for each family of commands, and the tables they print."""
