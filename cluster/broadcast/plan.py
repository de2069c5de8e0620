"""Which node reads from which, in chunks of what size, and how long it waits: pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FAN_OUT = 2  # nodes that read from one; more would divide its upload further, and one alone makes a long chain
CHUNK_BYTES = 4 << 20  # Ray sends pieces of 5 MiB, so smaller chunks would not start earlier
ROOT = -1  # the learner's node, as a parent


@dataclass(frozen=True, slots=True)
class Place:
    """A node's place in the tree."""

    parent: int  # the number of the node it reads from; ROOT: the learner's node
    depth: int  # steps to the learner's node, >= 1


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a node waits, in seconds; the last two count from the moment it begins."""

    patience_s: float  # for one chunk from its parent; after that it reads from the learner's node
    leave_s: float  # for all chunks from its parent, which may be slow but not silent
    total_s: float  # for everything


@dataclass(frozen=True, slots=True)
class Layout:
    """How bytes are divided into chunks."""

    size: int  # bytes of all chunks together
    chunk_bytes: int  # of each chunk; the last one may be shorter

    @property
    def chunks(self) -> int:
        """The number of chunks, >= 1: no bytes at all are one empty chunk."""
        return max(1, math.ceil(self.size / self.chunk_bytes))

    def span(self, index: int) -> slice:
        """Where chunk ``index`` lies. Raises IndexError if there is no such chunk."""
        if not 0 <= index < self.chunks:
            raise IndexError(f"chunk {index} of {self.chunks}")
        return slice(index * self.chunk_bytes, min(self.size, (index + 1) * self.chunk_bytes))


def broadcast_tree(count: int, fan_out: int = FAN_OUT) -> list[Place]:
    """Return the places of nodes 0 to ``count - 1``: a complete tree whose root is the learner's node.

    The first nodes are nearest to the root, and the last ones have no children.
    """
    places: list[Place] = []
    for number in range(count):
        parent = number // fan_out - 1
        places.append(Place(parent, 1 if parent == ROOT else places[parent].depth + 1))
    return places


def reading_order(nodes: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    """Order nodes for the tree: those that had their last weights first come first, those without a time come last.

    So a slow node, and whatever waited for it, is far from the root the next time, where few or none wait for it.
    """
    return sorted(nodes, key=lambda node: (seconds.get(node, math.inf), node))


def time_limits(place: Place, places: Sequence[Place], limit_s: float) -> TimeLimits:
    """Divide ``limit_s``, the time in which a node must have everything: half of it is for reading from the parent.

    Patience grows with depth. When a node stalls, its children leave it first, and go on to feed their own.
    """
    height = max(each.depth for each in places)
    return TimeLimits(limit_s / 2 * (place.depth / height), limit_s / 2, limit_s)
