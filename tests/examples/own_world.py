"""Train in a world of your own: the game of Nim in one file, named by its import path.

    python tests/examples/own_world.py --out runs/own-world

Two seats take one to three stones in turn, and who takes the last one wins. The policy knows nothing of the game at
first. In a package of your own, the config file says ``[task] name = "package.module:CLASS"``, and ``entente train``
reads it. It takes about half a minute on two cores.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import entente
from grpo_core.types import KeyValue, Measure
from services.environments.environment import World
from services.environments.language import Language
from services.environments.playing import Bot, Game, Result, Slot, Standing, Step

SEATS = ("FIRST", "SECOND")
MOST_STONES, MOST_TAKEN = 12, 3


@dataclass(frozen=True)
class Heap:
    """What a seat sees: here everything, for nothing is hidden."""

    stones: int

    @property
    def choices(self) -> tuple[str, ...]:
        """What may be taken."""
        return tuple(f"take {count}" for count in range(1, min(MOST_TAKEN, self.stones) + 1))


class NimGame(Game):
    """One game, from a number of stones."""

    def __init__(self, stones: int) -> None:
        self.heap, self.turns = Heap(stones), 0

    @property
    def is_done(self) -> bool:
        """Whether the last stone is taken."""
        return self.heap.stones == 0

    def to_act(self) -> tuple[str]:
        """The seats in turn."""
        return (SEATS[self.turns % 2],)

    def view(self, seat: str) -> Heap:
        """The heap."""
        return self.heap

    def facts(self, seat: str) -> Mapping[str, KeyValue]:
        """The stones before a decision: decisions about the same heap are compared."""
        return {"stones": self.heap.stones}

    def step(self, actions: Mapping[str, Sequence[str]]) -> Step:
        """Take the stones; whatever is no choice takes one, and is a defect."""
        ((_, written),) = actions.items()
        legal = len(written) == 1 and written[0] in self.heap.choices
        self.heap = Heap(self.heap.stones - (int(written[0].split()[1]) if legal else 1))
        self.turns += 1
        return Step({}, defects=int(not legal))

    def result(self) -> Result:
        """Who took the last stone has won."""
        winner, loser = (SEATS[(self.turns - 1) % 2], SEATS[self.turns % 2])
        outcomes = {winner: {"won": 1.0}, loser: {"won": 0.0}}
        return Result(outcomes, parts=outcomes, standing=Standing({winner: 1.0, loser: 0.0}, ((winner,), (loser,))))


class NimLanguage(Language):
    """``FIRST 5 ?`` is answered by ``take 1``."""

    rules = "This is Nim: take 1 to 3 stones. Who takes the last stone wins."
    example = "take 1"
    word_pattern = r"\n|[^\s]+"

    def words(self) -> Sequence[str]:
        """All words, and the end of a line."""
        return (*SEATS, *map(str, range(MOST_STONES + 1)), "take", "?", "\n")

    def prompt(self, view: Heap, seat: str) -> str:
        """Seat and stones."""
        return f"{seat} {view.stones} ?"

    def slots(self, view: Heap, seat: str) -> tuple[Slot, ...]:
        """One line, which is one of the choices."""
        return (Slot(view.choices, (None,) * len(view.choices)),)


class RandomBot(Bot):
    """Takes any number of stones."""

    def actions(self, view: Heap, seat: str, seed: int) -> tuple[str, ...]:
        """One draw."""
        return (random.Random(seed).choice(view.choices),)


class Nim(World):
    """Nim for two."""

    name, role_name, roles = "nim", "player", SEATS
    measures = (Measure("win_rate", "won", "Wins", "share of games won", "share", even=0.5),)
    turn_facts = ("stones",)
    group_keys = ("player+stones", "player")
    bots = {"random": RandomBot}  # noqa: RUF012
    language = NimLanguage()

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> NimGame:
        """A game from a number of stones."""
        return NimGame(int(start))

    def draw_start(self, role: str, seed: int) -> str:
        """From 5 stones on: both seats have a choice in every game."""
        return str(random.Random(seed).randint(5, MOST_STONES))


CONFIG = {
    "task": {"name": "own_world:Nim"},  # the name of this file, without its folder
    "policy": {"hidden_size": 32, "layers": 2, "intermediate_size": 64},
    "inference": {"max_completion_length": 16},
    "learner": {"updates": 2, "episodes_per_update": 96, "learning_rate": 3e-3},
    "rollout": {"actors": 1, "num_generations": 8},
    "evaluation": {"games_per_role": 50},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train for two updates, and show what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/own-world"), help="folder for the run")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a config key")
    options = parser.parse_args(arguments)

    run = entente.train(entente.load_config(CONFIG, options.set), options.out)
    for row in run.evaluations:
        print(f"{row['label']}: wins {row['win_rate']:.0%} of {row['games']} games against {row['against']}")
    for row in run.metrics():
        for key in Nim.group_keys:
            if groups := row.get(f"entente_groups{{level={key}}}"):
                print(f"update {row['update']}: {groups:.0f} groups by {key}")


if __name__ == "__main__":  # a run starts processes, which import this file
    main()
