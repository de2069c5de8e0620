"""``entente drill``: a short training, the faults it must get over, and the books that show that it lost nothing."""
