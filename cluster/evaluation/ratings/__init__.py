"""Rating matches between members of a population: their games, their order and their players."""
