"""Press: what powers write to one another before they give orders, and what they promise by it."""
