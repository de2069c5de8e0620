"""Choose which samples are compared with one another: a chain of grouping keys of your own.

    python tests/examples/own_grouping_keys.py --out runs/own-keys

A sample's advantage is its return minus the mean of its group. A fine key compares like with like, and leaves few
samples in a group; a group under ``grouping.min_group_size`` falls back to the next key of the chain. Every key must be
known before the action that it judges; ``entente train --keys`` lists the facts. It takes about a minute on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import entente


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with keys of our own, and show how the samples fell into groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/own-keys"), help="folder for the run")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a config key")
    options = parser.parse_args(arguments)

    # A key that a game's outcome would decide is refused, for it would bias the gradient.
    try:
        entente.load_config("smoke", {"grouping.keys": ["country+centers"]})
    except entente.EntenteError as error:
        print("refused:", error)

    # From fine to coarse: who plays, in which part of the game and with how many centres; then without the centres;
    # then the country alone.
    keys = ["country+segment+own_centers", "country+segment", "country"]
    config = entente.load_config("smoke", {"grouping.keys": keys, "grouping.min_group_size": 2})
    run = entente.train(config, options.out, overrides=options.set)

    for row in run.metrics():
        for key in keys:
            if groups := row.get(f"entente_groups{{level={key}}}"):
                size = row[f"entente_group_size{{level={key}}}"]
                print(f"update {row['update']}: {groups:.0f} groups by {key}, {size:.1f} samples each")

    # Which keys explain most of the returns' variance, declared or not: entente groups audit RUN
    print(f"more: entente groups audit {run.path}")


if __name__ == "__main__":  # a run starts processes, which import this file
    main()
