"""The page that shows one game phase by phase."""
