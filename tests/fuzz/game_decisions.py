"""Decisions beside saved games, and two games of which one is odd: what ``entente replay`` reads."""

from __future__ import annotations

import functools
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from services.reports.game_viewer.decisions import (
    SCHEMA,
    GameDecisions,
    Judgement,
    RecordedDecision,
    decisions_path,
    unit_choice,
)
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import changed, damaged, json_bytes
from tests.fuzz.saved_games import game, odd_game

VALUES = (-1, 2, 1e400, 10**30, None, "", "</script><script>alert(1)</script>", "\x1b[2J", "x" * 10_000, [], {}, True)


@functools.cache
def decisions() -> Any:
    """The decisions of France and Russia in the first phases of the game, judged."""
    found = []
    for phase in game()["phases"][:3]:
        for power in ("FRANCE", "RUSSIA"):
            orders = phase["orders"].get(power) or []
            choices = tuple(unit_choice([order, "A PAR H"], [0.75, 0.25], 0.56, order) for order in orders)
            judgement = Judgement(1.0, 0.5, 2.0, "country+phase", f"{power}, {phase['name']}", 8, 0.25, version=2)
            found.append(RecordedDecision(phase["name"], power, "demo", (0, 1), "so", choices, 1.0, "", judgement))
    return msgspec.to_builtins(GameDecisions(SCHEMA, "a", "played", ("rules", "position"), tuple(found)))


def cases(rng: random.Random) -> Iterator[Case]:
    """Changes anywhere in the decisions, damaged files, and an odd game beside an intact one."""
    while True:
        how = rng.random()
        if how < 0.35:
            name, data = odd_game(rng)
            yield Case(f"beside another game: {name}", ("pair", data))
            continue
        if how < 0.5:
            name, data = damaged(rng, gzip.compress(json_bytes(decisions()), mtime=0))
        elif how < 0.6:
            name, text = damaged(rng, json_bytes(decisions()))
            data = gzip.compress(text, mtime=0)
        elif how < 0.8:
            name, document = changed(rng, decisions())
            data = gzip.compress(json_bytes(document), mtime=0)
        else:
            document = json.loads(json.dumps(decisions()))
            decision = rng.choice(document["decisions"])
            part = rng.choice([decision, decision["judgement"], *(decision.get("choices") or ())])
            key = rng.choice(sorted(part))
            part[key] = rng.choice(VALUES)
            name, data = f"{key} = {str(part[key])[:40]!r}", gzip.compress(json_bytes(document), mtime=0)
        yield Case(name, ("decisions", data))


def run(case: Case, folder: Path, shared: object) -> None:
    """Make the page, which shows the game whatever its decisions are."""
    (use, data), path = case.input, folder / "game.json"
    path.write_bytes(json_bytes(game()))
    page = folder / "page.html"
    if use == "pair":
        (folder / "other.json").write_bytes(data)
        command("replay", path, folder / "other.json", "--out", page)
        return
    decisions_path(path).write_bytes(data)
    command("replay", path, "--out", page)
    assert "<script>alert(1)" not in page.read_text()


KIND = Kind("replays", cases, run, quick=12)
