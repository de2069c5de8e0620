"""The command line: one file a family of commands, and the tables they print."""
