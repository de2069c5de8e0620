"""``python -m cluster``: the ``entente`` command where no script is installed."""

from cluster.cli import main

if __name__ == "__main__":
    main()
