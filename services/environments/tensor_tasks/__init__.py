"""Tasks for small networks: control problems, games of OpenSpiel, and the way to other libraries."""
