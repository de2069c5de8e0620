"""What a run needs from the machine and from Ray: memory, placement, processes and servers."""
