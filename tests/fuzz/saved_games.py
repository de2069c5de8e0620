"""Saved games: loaded to go on with, to be imitated, and to be shown."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import changed, damaged, edit, json_bytes

USES = ("load", "imitate", "report")
PHASE_VALUES = (
    "S1901M",
    "COMPLETED",
    "FORMING",
    "F1901R",
    "W1901A",
    "X0000Z",
    "S99999999M",
    "",
    "?",
    "S1901",
    "W9999A",
)
ORIGIN = {
    "schema": 1,
    "seats": {
        power: {
            "player": "demo/checkpoints/90",
            "kind": "learner",
            "version": 90,
            "checksum": "0f" * 32,
            "decoding": "free",
            "temperature": 1.0,
        }
        for power in ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
    },
    "seed": 7,
    "until_year": 1902,
    "commit": "0f",
    "package_version": "0.1.0",
}
ORIGIN_TEXTS = (
    "</script><script>alert(1)</script>",
    "\x1b]0;title\x07\x1b[2J",
    "\u202eedoc\u2028",
    "x" * 1_000_000,
    "../../../etc/passwd",
    "",
)
UNITS = (
    ["A PAR"],
    ["*A PAR"],
    ["A XXX"],
    ["PAR"],
    ["F STP/NC"],
    [""],
    ["A PAR"] * 500,
    [3],
    [None],
    ["A PAR", "F PAR"],
    "A PAR",
    {},
)


@functools.cache
def game() -> Any:
    """A short game that was played to its end."""
    from services.environments.diplomacy.game import DiplomacyGame

    rng, played = random.Random(1), DiplomacyGame(1902, "a")
    while not played.is_done:
        position = played.position
        for power in position.to_move:
            places = [place for place in position.orderable[power] if place in position.legal]
            played.set_orders(power, [rng.choice(position.legal[place]) for place in places])
        played.process()
    from diplomacy.utils.export import to_saved_game_format

    return {**json.loads(json.dumps(to_saved_game_format(played._engine))), "entente": ORIGIN}


def cases(rng: random.Random) -> Iterator[Case]:
    """Documents with a change anywhere, in the record of who played, or in what the engine reads.

    The engine reads phases, units, retreats, orders and the map.
    """
    while True:
        how, seed = rng.random(), rng.randrange(1 << 30)
        if how < 0.1:
            yield Case(f"another file, seed {seed}", (seed, rng.choice(USES)))
            continue
        name, data = odd_game(rng)
        yield Case(name, (data, rng.choice(USES)))


def odd_game(rng: random.Random) -> tuple[str, bytes]:
    """A file with a change, and what was changed."""
    how = rng.random()
    if how < 0.17:
        return damaged(rng, json.dumps(game()).encode())
    if how < 0.39:
        name, document = _odd_origin(rng)
    elif how < 0.61:
        name, document = changed(rng, game())
    else:
        name, document = _odd_phase(rng)
    return name, json_bytes(document)


def _odd_origin(rng: random.Random) -> tuple[str, Any]:
    """A game with an odd record of who played."""
    origin = json.loads(json.dumps(ORIGIN))
    if rng.random() < 0.5:
        name, origin = changed(rng, origin)
    else:
        seat = origin["seats"][rng.choice(sorted(origin["seats"]))]
        part = rng.choice((origin, origin["seats"], seat))
        key = rng.choice((*part, rng.choice(ORIGIN_TEXTS)))
        part[key] = rng.choice((*ORIGIN_TEXTS, 10**30, -1, 1e400, None, [], {}, True))
        name = f"{key[:40]!r} is odd"
    return f"who played: {name}", {**game(), "entente": origin}


def _odd_phase(rng: random.Random) -> tuple[str, Any]:
    document = json.loads(json.dumps(game()))
    if rng.random() < 0.2:
        value = rng.choice(
            ["../../../etc/passwd", "/etc/passwd", "ancmed", "modern", "", None, 3, "standard\0", ["standard"]]
        )
        key = rng.choice(["map", "map", "rules", "id", "phases"])
        document[key] = value
        return f"{key} = {value!r}", document
    phase = rng.choice(document["phases"])
    key = rng.choice(
        ["name", "units", "centers", "retreats", "builds", "orders", "results", "note", "influence", "homes"]
    )
    part = phase["state"] if key in phase["state"] and rng.random() < 0.7 else phase
    power = rng.choice(["FRANCE", "RUSSIA", "NOBODY"])
    if key == "name":
        part[key] = rng.choice(PHASE_VALUES)
    elif rng.random() < 0.5 and isinstance(part.get(key), dict):
        part[key][power] = rng.choice(
            (*UNITS, {"A PAR": ["BUR", 3]}, {"count": 99, "homes": ["XXX"]}, {"count": -1, "homes": None})
        )
        key = f"{key}.{power}"
    else:
        _, part[key] = changed(rng, part.get(key))
    return f"{phase.get('name')}: {key}", document


def run(case: Case, folder: Path, shared: object) -> None:
    """Use the file in one way."""
    from cluster.configs.schema import Config
    from opponents.demonstrations import saved_demonstrations
    from services.environments.diplomacy.game import DiplomacyGame

    (content, use), path = case.input, folder / "game.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(game()).encode())
    if isinstance(content, int):
        edit(random.Random(content), path)
    if use == "report":
        command("report", path)
    elif use == "load":
        loaded = DiplomacyGame.load(path, 1903)
        _ = loaded.position
        if not loaded.is_done:
            loaded.process()
        else:
            loaded.outcome()
    else:
        for number, _ in enumerate(saved_demonstrations(Config().world, Config().imitation, path, _tokens())):
            if number > 20:
                break


@functools.cache
def _tokens() -> Any:
    from opponents.players.llm_policy import TokenizedLanguage
    from services.environments.diplomacy.rules.orders import WORD_PATTERN
    from services.environments.diplomacy.text.notation import words
    from services.environments.diplomacy.world import Diplomacy
    from services.inference.word_tokenizer import make_word_tokenizer

    return TokenizedLanguage(Diplomacy.language, make_word_tokenizer(words(), WORD_PATTERN))


KIND = Kind("saved games", cases, run, quick=15)
