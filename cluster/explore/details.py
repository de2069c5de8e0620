"""Updates in detail: which of a run's traces the page holds, with clusters, opponents and words added."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cluster.errors import RunError
from cluster.explore.clusters import ClusterWindow, cluster_labels
from cluster.explore.opponents import Members, seats_in_words
from cluster.explore.token_text import TokenText
from cluster.runs.folder import strict_json
from cluster.runs.progress_bars import AddBar
from cluster.runs.traces import read_trace, trace_files

_Item = TypeVar("_Item")
_MOST_CLUSTERED = 40  # updates for which clusters are made: they take most of the time


@dataclass(frozen=True, slots=True)
class Details:
    """The updates that a page holds."""

    traces: Mapping[str, str]  # by version: JSON, gzip, base64
    left_out: int  # updates with a trace that has no room
    damaged: list[int]  # versions whose trace cannot be read
    roles: list[str]  # in the order in which they are met


def detailed_updates(
    folder: Path, text: TokenText, members: Members, add_bar: AddBar, most_bytes: int, most_of_one: int | None = None
) -> Details:
    """Choose a folder's traces evenly so that they fit, the newest among them, and make them ready.

    One is always kept, without the tokens that go beyond ``most_of_one`` bytes (None: ``most_bytes``).
    """
    most_of_one = most_bytes if most_of_one is None else most_of_one
    files = trace_files(folder)
    chosen = _evenly(list(files), _that_fit(files, most_bytes))
    clustered = set(_evenly(chosen, _MOST_CLUSTERED))
    windows: dict[int, ClusterWindow] = {}
    roles: dict[str, None] = {}
    packed: dict[int, bytes] = {}
    damaged: list[int] = []
    advance = add_bar("reading updates", len(chosen))
    for version in chosen:
        advance(1)
        try:
            trace = read_trace(files[version])
        except RunError:
            if files[version].exists():  # a run that trains thins its traces meanwhile
                damaged.append(version)
            continue
        try:
            trace["clusters"] = cluster_labels(trace, windows) if version in clustered else None
        except ValueError:  # settings of groups that this version of Entente does not know
            damaged.append(version)
            continue
        roles |= dict.fromkeys(trace["episodes"]["role"])
        _add_opponents(trace, members)
        text.add_to(trace)
        packed[version] = _fitting(trace, most_of_one)
    kept = _within(packed, most_bytes)
    traces = {str(version): base64.b64encode(packed[version]).decode() for version in kept}
    return Details(traces, len(files) - len(traces) - len(damaged), damaged, list(roles))


def first_of_each(folders: Sequence[Path], most_bytes: int) -> tuple[list[Path], int]:
    """Return the folders, evenly chosen, whose newest traces fit together, and how many more have a trace."""
    newest = {folder: files[max(files)] for folder in folders if (files := trace_files(folder))}
    sizes = [path.stat().st_size * 4 / 3 for path in newest.values()]
    fitting = len(sizes) if sum(sizes) <= most_bytes else max(1, int(most_bytes * len(sizes) / sum(sizes)))
    chosen = _evenly(list(newest), fitting)
    return chosen, len(newest) - len(chosen)


def _fitting(trace: dict[str, Any], most_bytes: int) -> bytes:
    """Pack a trace; one that alone has no room keeps the tokens of fewer turns, evenly chosen, but of one at least.

    ``tokens_left_out`` then says how many turns lost theirs.
    """
    recorded = len(trace["tokens"])
    packed = gzip.compress(strict_json(trace), 9, mtime=0)
    while len(packed) * 4 / 3 > most_bytes and len(trace["tokens"]) > 1:
        trace["tokens"] = _evenly(trace["tokens"], len(trace["tokens"]) // 2)
        trace["tokens_left_out"] = recorded - len(trace["tokens"])
        packed = gzip.compress(strict_json(trace), 9, mtime=0)
    return packed


def _that_fit(files: Mapping[int, Path], most_bytes: int) -> int:
    """How many traces of the mean size fit; prompts as words take about the room of their numbers."""
    sizes = [path.stat().st_size for path in files.values()]
    mean = sum(sizes) / max(len(sizes), 1) * 4 / 3
    return max(1, int(most_bytes / max(mean, 1.0)))


def _within(packed: Mapping[int, bytes], most_bytes: int) -> list[int]:
    """The versions that fit, thinned evenly until they do."""
    kept = list(packed)
    while len(kept) > 1 and sum(len(packed[version]) for version in kept) * 4 / 3 > most_bytes:
        kept = _evenly(kept, len(kept) - max(1, len(kept) // 20))
    return kept


def _evenly(items: Sequence[_Item], most: int) -> list[_Item]:
    """At most this many of the items at even distances, the last among them and, if there is room, the first."""
    count = len(items)
    if count <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    return [items[round(index * (count - 1) / (most - 1))] for index in range(most)]


def _add_opponents(trace: dict[str, Any], members: Members) -> None:
    """Add who sat at the other seats, as a text for each episode, where the run's line-ups say so."""
    names = [seats_in_words(members, block) for block in trace["episodes"]["block"]]
    if any(name is not None for name in names):
        trace["episodes"]["opponents"] = names
