"""Control problems as tasks for small networks: gymnasium's, a family of them in one task, and one for three agents."""
