"""Tell how players treat two kinds of partners in the same saved games, and the difference with its interval.

    python -m tests.benchmarks.press.partners games/press --partners honest,breaker --json partners.json

Rates are sums over all games: supports, supports that mattered and attacks for each movement phase and partner, and
the share of the tested promises that was kept. A game has partners of both kinds, so that both rates move together from
game to game: the variance of the difference is that of its linearised residuals by game (CR1), with Student's t of
games - 1.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import t

from services.environments.diplomacy.measures.press.conduct import saved_conduct
from services.environments.diplomacy.press.conduct import Conduct
from services.environments.diplomacy.saved_game import read_saved_game

Counts = tuple[float, float]  # events, and what they are counted over
# What is told: its title, and events and their base of one power's conduct to another.
FIGURES: Mapping[str, Callable[[Conduct], Counts]] = {
    "supports": lambda own: (own.supports, own.phases),
    "supports that mattered": lambda own: (own.effective_supports, own.phases),
    "attacks": lambda own: (own.attacks, own.phases),
    "promises kept": lambda own: (own.promises_kept, own.promises_kept + own.promises_broken),
}


def difference(games: Sequence[tuple[Counts, Counts]]) -> dict[str, Any]:
    """Both rates over all games, and the first minus the second with its 95% interval."""
    sums = [(sum(each[kind][0] for each in games), sum(each[kind][1] for each in games)) for kind in (0, 1)]
    events = [int(events) for events, _ in sums]
    if not all(base for _, base in sums):
        return {"events": events, "rates": [None, None], "difference": None, "difference_ci95": None}
    rates = [events / base for events, base in sums]
    residuals = [
        sum((1, -1)[kind] * (each[kind][0] - rates[kind] * each[kind][1]) / sums[kind][1] for kind in (0, 1))
        for each in games
    ]
    squared = sum(residual**2 for residual in residuals) * len(games) / (len(games) - 1)
    half = float(t.ppf(0.975, len(games) - 1)) * math.sqrt(squared)
    gap = rates[0] - rates[1]
    ends = [gap - half, gap + half] if any(events) else None
    return {"events": events, "rates": rates, "difference": gap, "difference_ci95": ends}


def differences(files: Sequence[Path], partners: tuple[str, str]) -> dict[str, dict[str, Any]]:
    """By player and title of ``FIGURES``: see ``difference``; with the number of games."""
    games: defaultdict[str, list[Mapping[str, tuple[Counts, Counts]]]] = defaultdict(list)
    for file in files:
        players, found = saved_conduct(read_saved_game(file), str(file))
        for player in sorted(set(players.values()) - set(partners)):
            own = [
                [each for (power, other), each in found.items() if players[power] == player and players[other] == kind]
                for kind in partners
            ]
            games[player].append(
                {title: (total(own[0], counts), total(own[1], counts)) for title, counts in FIGURES.items()}
            )
    return {
        player: {"games": len(own), **{title: difference([each[title] for each in own]) for title in FIGURES}}
        for player, own in games.items()
    }


def total(conducts: Sequence[Conduct], counts: Callable[[Conduct], Counts]) -> Counts:
    """The sums over several pairs of powers."""
    found = [counts(each) for each in conducts]
    return sum(events for events, _ in found), sum(base for _, base in found)


def main() -> None:
    """Print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", type=Path, help="a folder of saved games")
    parser.add_argument("--partners", required=True, help="two kinds, such as honest,breaker")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    first, second = given.partners.split(",")
    found = differences(sorted(given.games.glob("*.json")), (first, second))
    print(f"| player | figure | to {first} | to {second} | difference |\n|---|---|---|---|---|")
    for player, own in found.items():
        for title in FIGURES:
            one = own[title]
            rates = [
                "-" if rate is None else f"{rate:.4f} ({n})"
                for rate, n in zip(one["rates"], one["events"], strict=True)
            ]
            ends = one["difference_ci95"]
            gap = "-" if ends is None else f"{one['difference']:+.4f} [{ends[0]:+.4f}, {ends[1]:+.4f}]"
            print(f"| {player} | {title} | {' | '.join(rates)} | {gap} |")
    if given.json:
        given.json.write_text(f"{json.dumps({'partners': [first, second], 'players': found}, indent=1)}\n")


if __name__ == "__main__":
    main()
