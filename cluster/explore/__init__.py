"""From a run's folder to one offline page that shows and recomputes what grouping did."""
