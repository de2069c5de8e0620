"""The decisions of a game as a file beside it: what players read, might have written and chose, and their judgement.

``FRANCE.json`` has its decisions in ``FRANCE.decisions.json.gz``: gzipped JSON of ``GameDecisions``. They are kept
apart because other programs read saved games, and because prompts and probabilities are larger than the game itself.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from grpo_core.checkpoints.atomic_write import write_atomically
from grpo_core.errors import one_line
from grpo_core.files import read_bytes
from services.reports.page import ReportError

SCHEMA = 1
SUFFIX = ".decisions.json.gz"
SHOWN_ORDERS = 8  # of one unit; the others are counted together
_MOST_BYTES = 50_000_000  # unpacked; a game of seven chat models has a fifth

_MOST_LINES = msgspec.Meta(max_length=20_000)  # the prompts of a long game of seven chat models share a tenth
_Name = Annotated[str, msgspec.Meta(max_length=500)]
_Text = Annotated[str, msgspec.Meta(max_length=100_000)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
_Number = Annotated[float, msgspec.Meta(ge=-1e100, le=1e100)]
_Probability = Annotated[float, msgspec.Meta(ge=0, le=1.001)]


class UnitChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The choice of one order, given the orders before it on the sheet."""

    chosen: _Name
    probability: _Probability  # of what was chosen
    entropy: Annotated[float, msgspec.Meta(ge=0, le=1e6)]  # nats
    orders: Annotated[tuple[tuple[_Name, _Probability], ...], msgspec.Meta(max_length=100)]  # the likeliest first
    others: _Count = 0  # legal orders besides these
    rest: _Probability = 0.0  # their probability together


class Judgement(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a training update judged a decision: by its return, beside those of a group of like decisions."""

    value: _Number  # the return
    baseline: _Number | None  # None: the role had none yet
    advantage: _Number  # with the group's weight
    level: _Name  # the key expression that formed the group: "country+phase"; "running": the role's running baseline
    group: _Name  # its values: "FRANCE, S1901M"
    size: _Count  # members of the group
    std: _Number | None = None  # of the group's returns
    zero_variance: bool = False  # all returns were equal, so that nothing is learned
    version: _Count = 0  # of the policy after the update


class RecordedDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision of one power."""

    phase: Annotated[str, msgspec.Meta(max_length=20)]
    power: Annotated[str, msgspec.Meta(max_length=40)]
    player: _Name = ""
    prompt: Annotated[tuple[_Count, ...], _MOST_LINES] = ()  # lines of what it read: places in ``GameDecisions.lines``
    thought: _Text = ""
    choices: Annotated[tuple[UnitChoice, ...], msgspec.Meta(max_length=81)] = ()
    temperature: _Number | None = None  # at which the probabilities hold
    note: _Name = ""  # why there are no choices
    judgement: Judgement | None = None


class GameDecisions(msgspec.Struct, frozen=True):
    """The decisions of one game; prompts share their lines, which repeat from phase to phase."""

    schema: int
    game_id: _Name
    made: _Name  # "played": recorded during the game; otherwise the policy that was asked afterwards
    lines: Annotated[tuple[_Text, ...], _MOST_LINES]
    decisions: Annotated[tuple[RecordedDecision, ...], msgspec.Meta(max_length=7000)]

    def prompt(self, decision: RecordedDecision) -> str:
        """The text that was read."""
        return "\n".join(self.lines[place] for place in decision.prompt)

    def judged(self, judgements: Mapping[tuple[str, str], Judgement]) -> GameDecisions:
        """The same decisions with judgements by phase and power; what has none keeps its own."""
        return msgspec.structs.replace(
            self,
            decisions=tuple(
                msgspec.structs.replace(each, judgement=judgements.get((each.phase, each.power), each.judgement))
                for each in self.decisions
            ),
        )


class Lines:
    """Collects the lines of prompts, each once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def add(self, text: str) -> tuple[int, ...]:
        """The places of a text's lines."""
        return tuple(self._places.setdefault(line, len(self._places)) for line in text.split("\n"))

    def all(self) -> tuple[str, ...]:
        """Every line in the order of places."""
        return tuple(self._places)


def unit_choice(orders: Sequence[str], probabilities: Sequence[float], entropy: float, chosen: str) -> UnitChoice:
    """Keep the ``SHOWN_ORDERS`` likeliest orders; the others are counted together.

    ``orders`` are the legal ones, likeliest first, with their ``probabilities``.
    """
    ranked = list(zip(orders, probabilities, strict=True))
    shown, others = ranked[:SHOWN_ORDERS], ranked[SHOWN_ORDERS:]
    return UnitChoice(
        chosen=chosen,
        probability=_rounded(dict(ranked)[chosen]),
        entropy=_rounded(max(0.0, entropy)),
        orders=tuple((order, _rounded(probability)) for order, probability in shown),
        others=len(others),
        rest=_rounded(sum(probability for _, probability in others)),
    )


def decisions_path(saved_game: Path) -> Path:
    """The file with the decisions of a saved game."""
    return saved_game.with_name(saved_game.stem + SUFFIX)


def write_decisions(saved_game: Path, decisions: GameDecisions) -> Path:
    """Write the decisions beside the game, without texts if these are longer than what is read again.

    Raises ``StorageError`` if they cannot be written.
    """
    path, text = decisions_path(saved_game), msgspec.json.encode(decisions)
    if not _is_readable(text):
        text = msgspec.json.encode(_without_texts(decisions))
    write_atomically(path, gzip.compress(text, mtime=0))
    return path


def _is_readable(text: bytes) -> bool:
    try:
        return len(text) <= _MOST_BYTES and bool(msgspec.json.decode(text, type=GameDecisions))
    except ValueError:
        return False


def _without_texts(decisions: GameDecisions) -> GameDecisions:
    note = "What was read and thought in this game is too long to be kept."
    changed = (
        msgspec.structs.replace(each, prompt=(), thought="", note=each.note or note) for each in decisions.decisions
    )
    return msgspec.structs.replace(decisions, lines=(), decisions=tuple(changed))


def read_decisions(saved_game: Path) -> GameDecisions | None:
    """Read the decisions beside a game, if there are any; raises ``ReportError`` if they are damaged."""
    path = decisions_path(saved_game)
    try:
        packed = read_bytes(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from error
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        found = msgspec.json.decode(text, type=GameDecisions)
        if found.schema != SCHEMA:
            raise ValueError(f"it has schema {found.schema}, and {SCHEMA} is read here")
        _check_lines(found.decisions, len(found.lines))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:  # what gzip and msgspec raise
        raise ReportError(f"{path} is damaged: {one_line(error, 200)}") from error
    return found


def _check_lines(decisions: Iterable[RecordedDecision], lines: int) -> None:
    if any(place >= lines for decision in decisions for place in decision.prompt):
        raise ValueError("a prompt has a line that the file does not hold")


def _rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
