"""Seconds until many nodes have new weights: simulated links, and a real Ray of several nodes on this machine."""
