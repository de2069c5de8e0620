"""What the players of a game read and wrote: prompts, the size of each part, and the defects of their answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rich.table import Table

from services.environments.diplomacy.position import Position
from services.environments.diplomacy.press.view import writes_press
from services.environments.playing import TRUNCATED, Decision, Policy

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
        self._answers: dict[tuple[str, str], list[Decision]] = defaultdict(list)
        self._first: dict[tuple[str, str, bool], tuple[str, str]] = {}  # player, kind of phase, letters -> title, text

    def watched(self, name: str, player: Policy) -> Policy:
        """Return a player that acts as this one does and reports what it reads; a bot is returned as it is."""
        return _Watched(name, player, self) if isinstance(player, Reader) else player

    def add(self, name: str, power: str, position: Position, view: PromptView, answer: Decision) -> None:
        """Take one prompt and its answer."""
        self._sizes[name, view.unit].append(view.sizes)
        self._answers[name, view.unit].append(answer)
        talks = writes_press(position)
        title = f"{name} as {power}, {position.phase}{', letters' if talks else ''}"
        self._first.setdefault((name, position.kind, talks), (title, view.text))

    def texts(self) -> list[tuple[str, str]]:
        """A title and the text of each player's first prompt of each kind of phase."""
        return list(self._first.values())

    def tables(self) -> list[Table]:
        """One table a player: the mean and the largest size of each part, of whole prompts and answers; and defects."""
        return [_table(*player, sizes, self._answers[player]) for player, sizes in self._sizes.items()]


class _Watched:
    """A player whose prompts are reported."""

    def __init__(self, name: str, player: Policy, report: PromptReport) -> None:
        self._name = name
        self._player = player
        self._report = report

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        decision = await self._player.act(position, power, seed)
        assert isinstance(self._player, Reader)
        self._report.add(self._name, power, position, self._player.read(position, power), decision)
        return decision


def _table(name: str, unit: str, sizes: list[Mapping[str, int]], answers: list[Decision]) -> Table:
    title, said = f"{name}: {unit} of {len(sizes)} prompts", _defects(answers)
    table = Table(title=title, title_justify="left", caption=said, caption_justify="left")
    table.add_column("part")
    for column in ("prompts", "mean", "largest"):
        table.add_column(column, justify="right")
    for part in dict.fromkeys(part for each in sizes for part in each):
        of_part = [each[part] for each in sizes if part in each]
        table.add_row(part, str(len(of_part)), f"{fmean(of_part):,.0f}", f"{max(of_part):,}")
    whole = [sum(each.values()) for each in sizes]
    table.add_row("whole prompt", str(len(whole)), f"{fmean(whole):,.0f}", f"{max(whole):,}", style="bold")
    written = [len(answer.turn.completion_ids) for answer in answers if answer.turn is not None]
    if written:
        table.add_row("answer", str(len(written)), f"{fmean(written):,.0f}", f"{max(written):,}", style="bold")
    return table


def _defects(answers: list[Decision]) -> str:
    """How many answers were cut off, and what was wrong in them, by reason."""
    reasons = Counter(defect.reason.replace("_", " ") for answer in answers for defect in answer.defects)
    cut = sum(TRUNCATED in answer.turn.defects for answer in answers if answer.turn is not None)
    counts = [f"{count} {reason}" for reason, count in (*reasons.most_common(), ("cut off", cut)) if count]
    return f"in {len(answers)} answers: {', '.join(counts)}" if counts else f"{len(answers)} answers without a defect"
