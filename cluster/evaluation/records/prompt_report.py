"""What the players of a game read: their prompts, and the size of each part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rich.table import Table

from services.environments.diplomacy.position import Position
from services.environments.playing import Decision, Policy

if TYPE_CHECKING:
    from opponents.prompts.policy_prompt import PromptView


@runtime_checkable
class Reader(Protocol):
    """A player that reads prompts; bots do not."""

    def read(self, position: Position, power: str) -> PromptView:
        """The prompt of the power's decision in this position."""
        ...


class PromptReport:
    """Collects the prompts of one game's players."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str], list[Mapping[str, int]]] = defaultdict(list)  # by player and unit
        self._first: dict[tuple[str, str], tuple[str, str]] = {}  # player and kind of phase -> title, text

    def watched(self, name: str, player: Policy) -> Policy:
        """Return a player that acts as this one does and reports what it reads; a bot is returned as it is."""
        return _Watched(name, player, self) if isinstance(player, Reader) else player

    def add(self, name: str, power: str, position: Position, view: PromptView) -> None:
        """Take one prompt."""
        self._sizes[name, view.unit].append(view.sizes)
        self._first.setdefault((name, position.kind), (f"{name} as {power}, {position.phase}", view.text))

    def texts(self) -> list[tuple[str, str]]:
        """A title and the text of each player's first prompt of each kind of phase."""
        return list(self._first.values())

    def tables(self) -> list[Table]:
        """One table a player: the mean and the largest size of each part, and of whole prompts."""
        return [_table(name, unit, sizes) for (name, unit), sizes in self._sizes.items()]


class _Watched:
    """A player whose prompts are reported."""

    def __init__(self, name: str, player: Policy, report: PromptReport) -> None:
        self._name = name
        self._player = player
        self._report = report

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        decision = await self._player.act(position, power, seed)
        assert isinstance(self._player, Reader)
        self._report.add(self._name, power, position, self._player.read(position, power))
        return decision


def _table(name: str, unit: str, sizes: list[Mapping[str, int]]) -> Table:
    table = Table(title=f"{name}: {unit} of {len(sizes)} prompts", title_justify="left")
    table.add_column("part")
    for column in ("prompts", "mean", "largest"):
        table.add_column(column, justify="right")
    for part in dict.fromkeys(part for each in sizes for part in each):
        of_part = [each[part] for each in sizes if part in each]
        table.add_row(part, str(len(of_part)), f"{fmean(of_part):,.0f}", f"{max(of_part):,}")
    whole = [sum(each.values()) for each in sizes]
    table.add_row("whole prompt", str(len(whole)), f"{fmean(whole):,.0f}", f"{max(whole):,}", style="bold")
    return table
