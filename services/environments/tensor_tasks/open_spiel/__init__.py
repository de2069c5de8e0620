"""Games of OpenSpiel as tasks for small networks, and how far a policy is from equilibrium in them."""
