"""The page of ``entente explore``."""
