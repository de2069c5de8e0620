"""The contract of a world: all that the floors above know of what is played.

A world is one folder below ``services/environments/`` (or a module of another package) whose ``world.py`` defines
``WORLD``, a subclass of ``World``. It deals in text and plain data: what a seat sees, what it may write, what that
earned. Tokens, engines, opponents, storage and learning belong to the floors above, which never ask which world is on.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from grpo_core.section import Settings
from grpo_core.seeds import derive_seed
from grpo_core.types import Measure, PairMeasure, RoleMeasures
from services.environments.evaluation import EvaluationGame, EvaluationResult, stratified_row
from services.environments.language import Language
from services.environments.playing import Bot, Game, Parts, Policy, PromptedPolicy, View
from services.environments.seat_player import SeatPlayer
from services.environments.settings import EvaluationSettings, GamesPerRole, ImitationSettings, NoSettings
from services.environments.starts import SeededStarts, StartSchedule

# Facts about a game that the floors above know, in worlds with opponents.
LINEUP_FACT, POLICY_OPPONENTS_FACT = "lineup", "policy_opponents"


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A decision that a policy can imitate."""

    view: View
    seat: str
    actions: tuple[str, ...]
    phase: str


@dataclass(frozen=True, slots=True)
class RatingScale:
    """What is known of a world's seats and bots before the first game, in points of the Elo scale."""

    worth: Mapping[str, float]  # role -> what it is worth relative to the mean of all
    anchors: Mapping[str, Mapping[str, float]]  # member id of a bot -> role -> its strength there
    base_shares: Mapping[str, float]  # role -> its share of the score among equals

    @classmethod
    def even(cls, roles: Sequence[str], bots: Iterable[str] = ()) -> RatingScale:
        """All roles alike; the first bot, if any, is at 1000 points in each."""
        anchors = {f"bot/{name}": dict.fromkeys(roles, 1000.0) for name in itertools.islice(bots, 1)}
        return cls(dict.fromkeys(roles, 0.0), anchors, dict.fromkeys(roles, 1 / len(roles)))


class World(ABC):
    """What is played. Subclasses define the class variables, and take their section ``[game]`` when they are made.

    A world is imported wherever a configuration is read, so its module must import quickly: what is slow belongs into
    its methods.
    """

    name: ClassVar[str]
    role_name: ClassVar[str]  # what a role is called in group keys, metrics and reports: "country"
    measures: tuple[Measure, ...]  # the first is the main one
    pair_measures: tuple[PairMeasure, ...] = ()  # of a role and each other one
    episode_facts: ClassVar[tuple[str, ...]] = ()  # of a start; LINEUP_FACT is the floors' own
    turn_facts: tuple[str, ...] = ()
    has_opponents: ClassVar[bool] = True  # whether all other roles sit at the same table
    looks_ahead: ClassVar[bool] = False  # whether ``looking_ahead`` makes players
    has_press: bool = False  # of a class: whether its games can have letters; of a world: whether they do
    saves_positions: ClassVar[bool] = False  # whether saved games have positions and actions, for tables of decisions
    bots: ClassVar[Mapping[str, Callable[[], Bot]]] = {}  # by name
    example_role: ClassVar[str] = ""  # whose first prompt an exported policy shows; "": that of the first role
    group_keys: ClassVar[tuple[str, ...]] = ()  # the default of grouping.keys; none named: the role alone
    game_settings: ClassVar[type[Settings]] = NoSettings
    evaluation_settings: ClassVar[type[EvaluationSettings]] = GamesPerRole
    imitation_settings: ClassVar[type[ImitationSettings]] = ImitationSettings
    # Defaults of this world for sections that all worlds share: section -> key -> value, as in a config file.
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    language: Language

    def __init__(self, settings: Any) -> None:
        """Take the checked ``[game]`` section. Raises ValueError for values that do not fit together."""
        self.settings = settings

    @property
    @abstractmethod
    def roles(self) -> tuple[str, ...]:
        """The roles that the learner takes in rotation; with opponents, all seats of a game."""

    @property
    def measured(self) -> RoleMeasures:
        """What the figures of this world are grouped and named by."""
        others = len(self.roles) - 1 if self.has_opponents else 0
        opposition, pairs = self.opposition("{}"), tuple(self.pair_measures)
        return RoleMeasures(self.role_name, tuple(self.roles), tuple(self.measures), others, opposition, pairs)

    @property
    def parting_facts(self) -> tuple[str, ...]:
        """Facts of which every group key must name one, where games of several kinds are mixed; () for no rule."""
        return ()

    @property
    def repeated_answers(self) -> int:
        """How many earlier answers of its game a prompt repeats at most."""
        return 0

    @property
    def reward_weights(self) -> Parts:
        """The weight of each reward part; parts without one count 0. By default only the main measure's part counts."""
        return {self.measures[0].outcome: 1.0}

    @abstractmethod
    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> Game:
        """A game that the learner plays as ``role`` from a start that ``starts`` drew; ``seed`` is the game's own."""

    def draw_start(self, role: str, seed: int) -> str:  # noqa: ARG002
        """Where a block's games start, as a short text for ``new_game``; by default all games start alike."""
        return ""

    def starts(self) -> StartSchedule:
        """A new schedule of starts; by default the one of ``draw_start``."""
        return SeededStarts(self.draw_start)

    def probes(self, roles: Sequence[str]) -> list[tuple[View, str]]:
        """Views and seats whose prompts check an engine after a swap: of two of these roles, as a game begins."""
        starts = self.starts()
        games = {role: self.new_game(starts.draw(role, 0), role, 0) for role in roles[:2]}
        return [(game.view(role), role) for role, game in games.items()]

    def make_bot(self, name: str) -> Bot:
        """Make one of ``bots``; ValueError for another name."""
        check_bot("bot", name, self.bots)
        return self.bots[name]()

    def looking_ahead(self, policy: PromptedPolicy) -> PromptedPolicy:
        """A player that compares what ``policy`` writes by simulated games; for worlds with ``looks_ahead``."""
        raise NotImplementedError(f"{self.name} has no simulated games for {policy}")

    def with_press(self) -> World | None:
        """The same world with letters, for boards that show them; None where it cannot have any."""
        return None

    def muted(self, policy: Policy) -> Policy:
        """The same player with its letters withheld; for worlds with ``has_press``."""
        raise NotImplementedError(f"{self.name} has no letters that {policy} writes")

    def evaluates_muted(self, settings: Any) -> bool:  # noqa: ARG002
        """Whether the trained policy is evaluated once more with its letters withheld, under ``[evaluation]``."""
        return False

    def press_summary(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:  # noqa: ARG002
        """What ``summary.json`` says about press, from a run's evaluation rows; None where there is none."""
        return None

    @classmethod
    def press_story(cls, document: Mapping[str, Any], name: str) -> Any:  # noqa: ARG003
        """What became of the letters of a saved game, for its page; None without any.

        ``name`` is for errors; raises EntenteError for a damaged game.
        """
        return None

    @property
    def rating_scale(self) -> RatingScale:
        """What ratings start from; by default the first of ``bots`` is the yardstick."""
        return RatingScale.even(self.roles, self.bots)

    def as_rated(self) -> World:
        """The world as rating matches play it: its games' standings may tell apart who otherwise shares a place."""
        return self

    def as_evaluated(self, settings: Any) -> World:  # noqa: ARG002
        """The world as the checked ``[evaluation]`` section plays it."""
        return self

    def as_measured(self, settings: Any) -> World:
        """``as_evaluated`` for the evaluation of players, whose games may tell more than training's: more measures."""
        return self.as_evaluated(settings)

    @property
    def definitions(self) -> Mapping[str, str]:
        """What each measure is in evaluation rows, by its name there."""
        return {measure.row_name: measure.text for measure in self.measures}

    def check_evaluation(self, settings: Any) -> None:
        """Raise ValueError, with the key's name, for an anchor in the ``[evaluation]`` section that does not exist."""
        for key in ("against", "final_against"):
            for name in getattr(settings, key):
                check_bot(f"evaluation.{key}", name, self.bots)

    def check_vocabulary(self, evaluation: Any) -> None:  # noqa: B027  # nothing to check by default
        """Raise ValueError if prompts have words that ``language.words()`` lacks, under these sections.

        It is asked for policies that learn from nothing, which have no other words. ``evaluation`` is the checked
        ``[evaluation]`` section.
        """

    def check_files(self, evaluation: Any) -> None:  # noqa: B027  # none by default
        """Read the files and find the functions that the settings and ``[evaluation]`` name, before a run begins.

        Raises an EntenteError, whose message is one line, for the first that cannot be used.
        """

    def evaluation_roles(self, settings: Any, against: str) -> Sequence[str]:  # noqa: ARG002
        """The roles in which a policy is evaluated against an anchor."""
        return self.roles

    def evaluation_facts(self, settings: Any) -> Mapping[str, str | int]:  # noqa: ARG002
        """What an evaluation row says about its games besides their number: their last year, for instance."""
        return {}

    def opposition(self, against: str) -> str:
        """How a line of text names an anchor: "against six random"."""
        return f"against {against}"

    def evaluation_games(self, settings: Any, against: str, seed: int) -> list[EvaluationGame]:
        """List the games against one anchor, equally many in each role; all candidates get the same ones."""
        starts = self.starts()

        def game(role: str, number: int) -> EvaluationGame:
            own = derive_seed(seed, "evaluation", against, role, number)
            return EvaluationGame(role, against, number, starts.draw(role, own), own)

        return [game(role, number) for number in range(settings.role_games) for role in self.roles]

    def summarize(self, settings: Any, results: Sequence[EvaluationResult]) -> dict[str, Any]:  # noqa: ARG002
        """The measures of an evaluation row: means and shares over all games, each role with the same weight.

        Their 95 % intervals are stratified by role; games are independent.
        """
        played = {role: own for role in self.roles if (own := [each for each in results if each.role == role])}
        by_role = {role: stratified_row({role: own}, self.measures) for role, own in played.items()}
        return {**stratified_row(played, self.measures), f"by_{self.role_name}": by_role}

    def saved_game(
        self,
        game: Game,  # noqa: ARG002
        players: Mapping[str, SeatPlayer] | None,  # noqa: ARG002
        seed: int,  # noqa: ARG002
        commit: str,  # noqa: ARG002
        package_version: str,  # noqa: ARG002
    ) -> str | None:
        """A finished game as text for ``games/``, with who played it where that is known; None: it is not kept."""
        return None

    def as_imitated(self, settings: Any) -> World:  # noqa: ARG002
        """The world as the checked ``[imitation]`` section plays it."""
        return self

    def check_imitation(self, settings: Any) -> None:
        """Raise ValueError, with the key's name, for a teacher in the ``[imitation]`` section that does not exist."""
        if settings.wanted:
            check_bot("imitation.teacher", settings.teacher, self.bots)

    def make_teacher(self, settings: Any, game: Game) -> Bot:  # noqa: ARG002
        """The player that is imitated in a game, in all its seats but those of ``make_others``."""
        return self.make_bot(settings.teacher)

    def make_others(self, settings: Any, role: str, seed: int) -> Mapping[str, Bot]:  # noqa: ARG002
        """Bots in other seats than ``role`` of a teacher's game, which are not imitated; none by default."""
        return {}

    def teaching(self, settings: Any) -> str:
        """What a progress bar says while teachers play."""
        return f"playing games of {settings.teacher}"

    def saved_games(self, settings: Any) -> Sequence[Path]:  # noqa: ARG002
        """Files with games that are imitated besides those of teachers. Raises ValueError if there are none."""
        return ()

    def saved_demonstrations(self, settings: Any, file: Path) -> Iterator[Demonstration]:
        """The decisions in one of ``saved_games``; raises an EntenteError if it cannot be read."""
        raise NotImplementedError(f"{self.name} saves no games, so {file} cannot be imitated")


def check_bot(key: str, name: str, names: Collection[str], others: str = "") -> None:
    """Raise ValueError with the key if there is no bot of this name."""
    if name not in names:
        raise ValueError(f"{key}: no bot is called {name!r}; there are {', '.join(names)}{others}")
