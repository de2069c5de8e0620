"""``python -m cluster.cli``: the ``entente`` command where no script is installed."""

from cluster.cli.app import main

if __name__ == "__main__":
    main()
