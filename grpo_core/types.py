"""The data types that all packages share: turns, episodes, groups and batches. They are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
KeyValue = str | int


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A published policy: the learner's update count (0 = initial weights) and the weights' SHA-256."""

    number: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Probe:
    """What the learner computes with published weights: P prompts, T greedy tokens of each, their log-probabilities."""

    prompts: tuple[tuple[int, ...], ...]  # P
    tokens: tuple[tuple[int, ...], ...]  # (P, T)
    logprobs: tuple[tuple[float, ...], ...]  # (P, T), over the whole vocabulary at temperature 1
    # (P, T) difference to the second likeliest token's log-probability: an engine may resolve near-ties differently.
    leads: tuple[tuple[float, ...], ...]
    numbers: str = "float32"  # the coarsest number format of the learner's weights


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One decision of a learner seat: its prompt, its completion and the sampling distribution.

    Axes: P prompt tokens, T completion tokens, S sampled tokens (``trained_mask.sum()``), A admissible ids.
    """

    prompt_ids: IntArray  # (P,)
    completion_ids: IntArray  # (T,) everything written, forced tokens and the end id included
    logprobs: FloatArray  # (T,) behaviour log-probability under mask and temperature; 0 where forced
    trained_mask: BoolArray  # (T,) True where the learner had a choice and sampled
    # Admissible ids of sampled token s, ascending: admissible_ids[admissible_offsets[s]:admissible_offsets[s + 1]].
    # No ids: the whole vocabulary was admissible, as in a thought. Both are empty where that holds for all tokens.
    admissible_ids: IntArray  # (A,)
    admissible_offsets: IntArray  # (S + 1,) or (0,)
    policy_version: int  # the learner's version whose weights sampled this turn
    temperature: float  # of the sampling; > 0
    phase: str  # the engine's short phase name, e.g. "S1901M"
    # Shaped reward from this decision to the seat's next one (or the end of its game), discounted to this phase.
    reward: float = 0.0
    elapsed_phases: int = 1  # game phases until the seat's next decision (or the end); the discount's clock
    # Known before this turn: phase, segment, own_centers, alliance.
    keys: Mapping[str, KeyValue] = field(default_factory=dict)
    defects: tuple[str, ...] = ()  # what went wrong: truncated, unparsed or illegal orders


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One learner seat's game as training data."""

    episode_id: str  # unique in a run: "<block_id>/<member>"
    task: str  # "diplomacy"
    role: str  # the country, e.g. "FRANCE"; a baseline never mixes roles
    block_id: str  # the line-up block this game belongs to
    block_size: int  # how many episodes that block yields when complete
    keys: Mapping[str, KeyValue]  # known before the game: country, lineup (digest of seats, opponents, versions)
    turns: tuple[Turn, ...]
    reward: float  # the episode's scalar return under the configured mix of parts
    reward_parts: Mapping[str, float]  # every component, unweighted, for the log
    outcome: Mapping[str, float]  # after the game: centers, solo, survived, top, draw, final_year, phases
    seed: int

    @property
    def oldest_version(self) -> int:
        """The oldest policy version that sampled one of the turns; staleness counts from it."""
        return min((turn.policy_version for turn in self.turns), default=0)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens over all turns."""
        return sum(len(turn.prompt_ids) + len(turn.completion_ids) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Group:
    """Samples that are compared with one another, as indices of episodes or of turns in episode order."""

    key: tuple[KeyValue, ...]
    level: str  # the key expression that formed it, e.g. "country+phase"
    members: tuple[int, ...]  # the samples whose returns make the baseline
    decided: tuple[int, ...]  # the members whose advantage this group decides; the others have a finer group


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The episodes of one update."""

    episodes: tuple[Episode, ...]
    learner_version: int  # before the update; staleness = learner_version - episode.oldest_version


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure by which a world says how well a role played, and how displays, boards and reports speak of it."""

    name: str  # in metrics: "win_rate" of entente_country_win_rate
    outcome: str  # its key in ``Episode.outcome``
    title: str  # of a panel: "Solos"
    text: str  # for help texts: "share of solos"
    kind: Literal["share", "mean"]  # a share is of games that did something, from 0 to 1
    low: float = 0.0  # the range that one game's value can have
    high: float = 1.0
    unit: str = "1"
    column: str = ""  # in evaluation rows, where it differs from the name: "mean_centers"
    header: str = ""  # of a column; else the title in lower case
    value: str = ""  # what a single game has; else the text without "mean"
    phrase: str = ""  # how a line of text says it: "survived {}"; only the main measure is said without one
    goal: float | None = None  # the value that fills a bar; else the highest
    note: str = ""  # a sentence that explains it below a table
    even: float | None = None  # what each of equal players gets; None: there is no such value
    even_note: str = ""  # says it after the figure: "of 34 centres that each of seven equal players holds"
    even_row: str = ""  # says it as a formula: "1/7 of the squared centres"
    only_evaluated: bool = False  # training does not follow it
    # The outcome that says of how many things a game's value is the share, for a share of all things of all games: a
    # game without any then says nothing. Empty: games weigh alike. It is the outcome of a measure of the same name.
    weight: str = ""

    @property
    def row_name(self) -> str:
        """Its name in evaluation rows."""
        return self.column or self.name

    @property
    def heading(self) -> str:
        """The header of its column."""
        return self.header or self.title.lower()

    @property
    def brief(self) -> str:
        """Its text in few words: "mean centres", "share of solos"."""
        return f"mean {self.heading}" if self.kind == "mean" else self.text

    @property
    def of_a_game(self) -> str:
        """What a single game has of it: "final supply centres"."""
        return self.value or self.text.removeprefix("mean ")

    @property
    def digits(self) -> int:
        """Decimal places that tell its means apart."""
        return 3 if self.high - self.low <= 1 else 2

    def shown(self, value: float, digits: int | None = None) -> str:
        """A value as text: a share in percent, a mean with ``digits`` (None: its own) decimal places."""
        if self.kind == "share" or self.weight:
            return f"{value:.0%}"
        return f"{value:.{self.digits if digits is None else digits}f}"

    def said(self, value: str) -> str:
        """A value's text in the words of ``phrase``."""
        return (self.phrase or f"{self.heading} {{}}").format(value)


@dataclass(frozen=True, slots=True)
class PairMeasure:
    """A share of what a role and each other one had to do with one another: a count by another, over many games.

    ``part`` and ``whole`` are followed by a slash and the other role in ``Episode.outcome``: "promises_to/FRANCE". A
    game without such a key counts 0.
    """

    name: str  # in metrics: "promises_kept" of entente_country_promises_kept
    part: str
    whole: str
    title: str  # of a panel: "Promises it keeps"
    text: str  # for help texts


_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True, slots=True)
class RoleMeasures:
    """What the figures of a world are grouped and named by: its roles, and the measures of how well each plays."""

    role_name: str  # "country"
    roles: tuple[str, ...]
    measures: tuple[Measure, ...]  # the first is the main one; the second stands beside it where two have room
    opponents: int = 0  # seats beside the learner's; 0: a role is no seat, and plays alone
    opposition: str = "against {}"  # how a line names an anchor: "against six {}"
    pairs: tuple[PairMeasure, ...] = ()  # of a role and each other one, that training follows

    @property
    def main(self) -> Measure:
        """The measure that is shown first."""
        return self.measures[0]

    @property
    def leading(self) -> tuple[Measure, ...]:
        """The main measure and the one that stands beside it."""
        return self.measures[:2]

    @property
    def trained(self) -> tuple[Measure, ...]:
        """The measures that training follows."""
        return tuple(measure for measure in self.measures if not measure.only_evaluated)

    @property
    def spoken(self) -> tuple[Measure, ...]:
        """The measures in the order in which a line says them: the main one, then the others from last to first."""
        others = reversed(self.measures[1:])
        return (self.main, *(measure for measure in others if measure.phrase))

    @property
    def plural(self) -> str:
        """Several roles: "countries"."""
        name = self.role_name
        return f"{name[:-1]}ies" if name.endswith("y") and name[-2:-1] not in "aeiou" else f"{name}s"

    @property
    def by_role(self) -> str:
        """The key of an evaluation row's results by role: "by_country"."""
        return f"by_{self.role_name}"

    @property
    def versus(self) -> str:
        """The word between a policy and an anchor: "against"."""
        return self.opposition.partition(" ")[0]

    @property
    def seats(self) -> str:
        """How many play a game, in a word: "seven"."""
        return count_word(self.opponents + 1)

    def others(self, name: str) -> str:
        """An anchor as it is met: "six random"."""
        return self.opposition.partition(" ")[2].format(name)


def role_label(role: str) -> str:
    """A role as people read it: "France" of "FRANCE"."""
    return role.capitalize() if role.isupper() else role


def count_word(count: int) -> str:
    """A small number as a word, others in digits."""
    return _COUNTS[count - 2] if 2 <= count < 2 + len(_COUNTS) else str(count)
