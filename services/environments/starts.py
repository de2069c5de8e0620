"""Where games start: always alike, or by a schedule that may follow results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from services.environments.playing import Parts


class StartSchedule(Protocol):
    """Where games of a role start, perhaps by how earlier ones went."""

    def draw(self, role: str, seed: int) -> str:
        """The start of a block of a role: a short text that ``World.new_game`` understands."""
        ...

    def record(self, role: str, start: str, outcomes: Sequence[Parts]) -> None:
        """Take the outcomes of a block's games."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Figures by catalogue key."""
        ...

    def state(self) -> Any:
        """What later draws depend on, as JSON data; None: they depend on nothing."""
        ...

    def load_state(self, state: Any) -> None:
        """Go on from ``state()``. Raises ValueError if it is damaged."""
        ...


class SeededStarts:
    """A schedule that looks at no results."""

    def __init__(self, draw: Callable[[str, int], str]) -> None:
        """``draw`` makes the start of a role and a seed."""
        self._draw = draw

    def draw(self, role: str, seed: int) -> str:
        """The start of a role and a seed."""
        return self._draw(role, seed)

    def record(self, role: str, start: str, outcomes: Sequence[Parts]) -> None:
        """Nothing depends on results."""

    def metrics(self) -> Mapping[str, float]:
        """No figures."""
        return {}

    def state(self) -> Any:
        """Nothing to keep."""
        return None

    def load_state(self, state: Any) -> None:
        """Nothing to load."""
