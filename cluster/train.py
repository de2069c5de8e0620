"""``python -m cluster.train CONFIG ...``: the same as ``entente train CONFIG ...``, for a submitted Ray job.

``cluster.driver.training`` is the training page.
"""

from cluster.cli.app import main

if __name__ == "__main__":
    main(prefix=["train"])
