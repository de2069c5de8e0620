"""Speed claims beside their yardsticks, measured in the same run."""
