"""Two games side by side, in step, from the phase in which they part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.reports.game_viewer.frames import Film, Frame
from services.reports.game_viewer.game_viewer import SCRIPTS, Replay, styles
from services.reports.page import asset, page

_PHASE = re.compile(r"([A-Z])([0-9]{1,8})([A-Z])")
_SEASONS = {"S": 0, "F": 1, "W": 2}
_KINDS = {"M": 0, "R": 1, "A": 2}


@dataclass(frozen=True, slots=True)
class Step:
    """One phase of either game."""

    phase: str
    frames: tuple[int, int]  # what each game shows: its frame of this phase or, without one, its last one before it
    present: tuple[bool, bool]  # whether each game has this phase
    different: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]  # power -> orders of one game alone


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two games in step."""

    steps: tuple[Step, ...]
    parting: int | None  # the first step in which orders or phases differ; None: they are the same game
    same_start: bool  # whether they begin in the same position


def compare(first: Film, second: Film) -> Comparison:
    """Put two games in step by the names of their phases."""
    films = first, second
    places: list[Mapping[str, int]] = [{frame.phase: i for i, frame in enumerate(film.frames)} for film in films]
    names = sorted({name for known in places for name in known}, key=_date)
    steps, shown = [], [0, 0]
    for name in names:
        present = name in places[0], name in places[1]
        shown = [known.get(name, before) for known, before in zip(places, shown, strict=True)]
        frames = [film.frames[index] for film, index in zip(films, shown, strict=True)]
        different = _different(*frames) if all(present) else {}
        steps.append(Step(name, (shown[0], shown[1]), present, different))
    parting = next((i for i, step in enumerate(steps) if step.different or not all(step.present)), None)
    return Comparison(tuple(steps), parting, _position(first.frames[0]) == _position(second.frames[0]))


def comparison_page(first: Replay, second: Replay) -> str:
    """Return an offline page of two games."""
    found = compare(first.film, second.film)
    shared = first.data["map"]
    games = [{name: value for name, value in each.data.items() if name != "map"} for each in (first, second)]
    title = f"{first.data['title']} beside {second.data['title'].removeprefix('Game ')}"
    data = {
        "title": title,
        "note": _note(found),
        "map": shared,
        "games": games,
        "parting": found.parting,
        "steps": [
            {"phase": step.phase, "frames": step.frames, "present": step.present, "different": step.different}
            for step in found.steps
        ],
    }
    scripts = [asset(f"game_viewer/{name}.js") for name in (*SCRIPTS, "comparison")]
    sheets = styles() + asset("game_viewer/comparison.css")
    return page(title, asset("game_viewer/comparison.html"), styles=sheets, data=data, scripts=scripts)


def _date(phase: str) -> tuple[int, int, int, str]:
    """Where a phase stands in time; the end of a game comes last."""
    found = _PHASE.fullmatch(phase)
    if found is None:
        return (10**9, 0, 0, phase)
    season, year, kind = found.groups()
    return (int(year), _SEASONS.get(season, 9), _KINDS.get(kind, 9), phase)


def _different(one: Frame, other: Frame) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    found = {}
    for power in sorted({*one.orders, *other.orders}):
        first, second = (_orders(frame, power) for frame in (one, other))
        alone = _without(first, second), _without(second, first)
        if any(alone):
            found[power] = alone
    return found


def _orders(frame: Frame, power: str) -> tuple[str, ...]:
    return tuple(order for order, _ in frame.orders.get(power, ()))


def _without(orders: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(order for order in orders if order not in others)


def _position(frame: Frame) -> Any:
    return frame.phase, frame.layers.get("UnitLayer"), frame.owners


def _note(found: Comparison) -> str:
    if found.parting is None:
        return "These are the same game: no order differs."
    step = found.steps[found.parting]
    if not found.same_start:
        return "These games do not begin in the same position."
    if step.different:
        powers = ", ".join(power.capitalize() for power in step.different)
        return f"They part in {step.phase}: the orders of {powers} differ."
    return f"They part in {step.phase}, which only one of them has."
