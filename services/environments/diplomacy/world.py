"""Diplomacy as a world: seven countries, whole games, order sheets under the mask of the legal orders."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from grpo_core.types import Measure
from services.environments.diplomacy.bots.registry import BOT_NAMES, NEGOTIATORS
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.measures.definitions import EVALUATED, PRESS_MEASURES, TRAINED, definition
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.press.pairs import PAIR_MEASURES
from services.environments.diplomacy.scoring.rewards import PRESS_PARTS, check_weights
from services.environments.diplomacy.settings import PRESS_ROUNDS, DiplomacyEvaluation, DiplomacyImitation, GameSettings
from services.environments.diplomacy.text.language import DiplomacyLanguage
from services.environments.diplomacy.text.press_language import PressLanguage
from services.environments.environment import Demonstration, RatingScale, World, check_bot
from services.environments.evaluation import EvaluationGame
from services.environments.playing import Bot, Game, Policy
from services.environments.seat_player import SeatPlayer

if TYPE_CHECKING:
    from services.environments.diplomacy.game import DiplomacyGame
    from services.environments.diplomacy.measures.press.story import PressStory
    from services.environments.playing import PromptedPolicy

PLAYOUT_YEARS = 2  # simulated games go to the end of the next year
_Game = TypeVar("_Game", bound="DiplomacyGame")


def _bot(name: str) -> Bot:
    from services.environments.diplomacy.bots.registry import make_bot

    return make_bot(name)


class Diplomacy(World):
    """Full seven-power Diplomacy on the standard map."""

    name = "diplomacy"
    role_name = "country"
    measures: tuple[Measure, ...] = TRAINED
    looks_ahead = True
    has_press = True
    saves_positions = True
    episode_facts = ("start_year", "scenario")
    turn_facts: tuple[str, ...] = ("phase", "segment", "own_centers", "alliance")
    example_role = "FRANCE"
    group_keys = ("country+phase", "country+segment", "country")
    bots = {name: partial(_bot, name) for name in BOT_NAMES}  # noqa: RUF012
    game_settings = GameSettings
    evaluation_settings = DiplomacyEvaluation
    imitation_settings = DiplomacyImitation
    language = DiplomacyLanguage()

    def __init__(self, settings: GameSettings) -> None:
        """Take the section ``[game]``. Raises ValueError for unknown reward parts."""
        check_weights(settings.reward)
        if not settings.press_rounds and (part := next(filter(PRESS_PARTS.__contains__, settings.reward), None)):
            raise ValueError(f"reward: {part} counts in games with press; set press_rounds to 1 or more")
        if settings.scenario_share > 0 and not settings.scenarios:
            raise ValueError(
                'scenario_share: name the scenarios in game.scenarios, such as ["opening"], or set it to 0'
            )
        if settings.saved_share > 0 and settings.saved_games is None:
            raise ValueError("saved_share: name a folder of saved games in game.saved_games, or set it to 0")
        if settings.saved_playouts and settings.press_rounds:
            raise ValueError("saved_playouts: such a game is one order sheet, without letters; set press_rounds to 0")
        for bot in settings.playout_opponents if settings.saved_playouts else ():
            check_bot("game.playout_opponents", bot, self.bots)
        super().__init__(settings)
        self.has_press = bool(settings.press_rounds)
        if settings.draw_votes or settings.press_rounds:
            self.language = (
                PressLanguage(draw_votes=settings.draw_votes, public=settings.press_public)
                if settings.press_rounds
                else DiplomacyLanguage(draw_votes=settings.draw_votes)
            )
        if settings.press_rounds:
            self.measures = (*self.measures, *PRESS_MEASURES)
            self.pair_measures = PAIR_MEASURES
            self.turn_facts = (*self.turn_facts, "act", "at_peace")

    @property
    def roles(self) -> tuple[str, ...]:
        """The seven powers."""
        return POWERS

    @property
    def parting_facts(self) -> tuple[str, ...]:
        """Games that begin in scenarios or saved positions are never compared with whole games."""
        return ("scenario", "fork") if self.settings.scenario_share or self.settings.saved_share else ()

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """``game.reward``."""
        weights: Mapping[str, float] = self.settings.reward
        return weights

    def draw_start(self, role: str, seed: int) -> str:
        """A scenario of ``role`` in ``game.scenario_share`` of the draws, or a saved position; else "".

        The empty start is the standard opening.
        """
        if self.settings.scenario_share:
            from services.environments.diplomacy.scenarios import training

            if scenario := training.draw(self.settings.scenarios, self.settings.scenario_share, role, seed):
                return scenario
        if self.settings.saved_share:
            from services.environments.diplomacy.scenarios import saved_positions

            game = self.settings
            return saved_positions.draw(
                game.saved_games, game.saved_players, game.saved_share, game.until_year, role, seed
            )
        return ""

    def check_files(self, evaluation: Any) -> None:  # noqa: ARG002
        """Set up every scenario of ``game.scenarios``; look for ``game.saved_games``."""
        if self.settings.scenarios:
            from services.environments.diplomacy.scenarios.training import check

            check(self.settings.scenarios)
        if self.settings.saved_share:
            from services.environments.diplomacy.scenarios.saved_positions import saved_files

            saved_files(self.settings.saved_games)

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> DiplomacyGame:  # noqa: ARG002
        """A game from the standard opening, a scenario or a saved position; its only chance is in the players."""
        from services.environments.diplomacy.game import DiplomacyGame

        if start:
            from services.environments.diplomacy.scenarios import saved_positions, training

            game, name = self.settings, game_id or None
            if not start.startswith(saved_positions.PREFIX):
                return self._with_press(training.begin(start, game.scenarios, name))
            if game.saved_playouts:
                return self._decision(start, role, name)
            begun = saved_positions.begin(
                start,
                game.saved_games,
                saved_positions.SavedPositionGame,
                until_year=game.until_year,
                quiet_years=game.quiet_years,
                years=game.saved_years,
                game_id=name,
            )
            return self.agree(begun)
        return self.agree(
            DiplomacyGame(self.settings.until_year, game_id or None, quiet_years=self.settings.quiet_years)
        )

    def _decision(self, start: str, role: str, name: str | None) -> DiplomacyGame:
        from services.environments.diplomacy.scenarios import saved_positions
        from services.environments.diplomacy.scenarios.decision_game import DecisionGame

        game = self.settings
        begun = saved_positions.begin(
            start,
            game.saved_games,
            DecisionGame,
            until_year=game.until_year,
            quiet_years=None,
            years=game.saved_years or PLAYOUT_YEARS,
            game_id=name,
        )
        begun.power, begun.playouts, begun.opponents = role, game.saved_playouts, game.playout_opponents
        return begun

    def agree(self, game: _Game) -> _Game:
        """The game, in which players vote on draws and write letters if the settings say so; before its first step."""
        game.draw_votes = self.settings.draw_votes
        return self._with_press(game)

    def _with_press(self, game: _Game) -> _Game:
        if self.settings.press_rounds:
            from services.environments.diplomacy.press.table import PressRules

            game.negotiate(
                PressRules(
                    self.settings.press_rounds,
                    self.settings.press_public,
                    self.settings.press_length,
                    self.settings.press_budget,
                )
            )
        return game

    def make_bot(self, name: str) -> Bot:
        """Make one of ``bots``; where players vote on draws, it does so too; with press it is silent, or negotiates."""
        bot = super().make_bot(name)
        if self.settings.press_rounds and name not in NEGOTIATORS:
            bot = self._silent(bot)
        if not self.settings.draw_votes:
            return bot
        from services.environments.diplomacy.bots.draw_voter import DrawVoter

        return DrawVoter(bot)

    @staticmethod
    def _silent(bot: Bot) -> Bot:
        from services.environments.diplomacy.bots.press.silent import SilentBot

        return SilentBot(bot)

    def looking_ahead(self, policy: PromptedPolicy) -> PromptedPolicy:
        """Order sheets of the policy meet simulated games, as those of the bot ``lookahead`` do."""
        from services.environments.diplomacy.bots.lookahead.lookahead import prepare
        from services.environments.diplomacy.bots.lookahead.policy import LookaheadPolicy

        prepare()

        return LookaheadPolicy(policy, self.language)

    def with_press(self) -> Diplomacy:
        """The same games with rounds of letters."""
        return type(self)(self.settings.model_copy(update={"press_rounds": PRESS_ROUNDS}))

    def muted(self, policy: Policy) -> Policy:
        """The same player, which reads letters and writes none."""
        from services.environments.diplomacy.bots.press.silent import MutedPolicy

        return MutedPolicy(policy)

    def evaluates_muted(self, settings: Any) -> bool:
        """With press, if ``evaluation.muted`` says so."""
        return bool(self.settings.press_rounds and settings.muted)

    def press_summary(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """The figures of press and the main ones by label and opponent; None without press."""
        if not self.settings.press_rounds:
            return None
        found: dict[str, dict[str, Any]] = {}
        for row in rows:
            names = (self.measures[0].row_name, *(measure.row_name for measure in PRESS_MEASURES))
            figures = {f"{name}{end}": row.get(f"{name}{end}") for name in names for end in ("", "_ci95")}
            found.setdefault(row["label"], {})[row["against"]] = {"games": row["games"], **figures}
        return found

    @classmethod
    def press_story(cls, document: Mapping[str, Any], name: str) -> PressStory | None:
        """Promises, conduct and alliances of a saved game with letters, whatever the settings."""
        from services.environments.diplomacy.measures.press.story import press_story

        return press_story(document, name)

    @property
    def rating_scale(self) -> RatingScale:
        """Measured worth of the countries and strength of the bots; shares among equals by the length of a game."""
        from services.environments.diplomacy.scoring.calibration import ANCHORS, COUNTRY_POINTS, base_shares

        return RatingScale(COUNTRY_POINTS, ANCHORS, base_shares(self.settings.until_year))

    def as_rated(self) -> Diplomacy:
        """Games that know in which order powers were eliminated."""
        return DatedDiplomacy(self._whole_games())

    def as_measured(self, settings: Any) -> Diplomacy:
        """Games that also count ranks, ties and orders."""
        return MeasuredDiplomacy(self._whole_games()).as_evaluated(settings)

    def _with_ending(self, year: int, quiet_years: int | None = None) -> Diplomacy:
        return type(self)(self._whole_games(until_year=year, quiet_years=quiet_years))

    def _whole_games(self, **changed: Any) -> GameSettings:
        """The settings, changed, of games that all begin with the standard opening."""
        standard = {"scenarios": (), "scenario_share": 0.0, "saved_share": 0.0}
        whole: GameSettings = self.settings.model_copy(update={**standard, **changed})
        return whole

    def as_evaluated(self, settings: Any) -> Diplomacy:
        """Games to the end of ``evaluation.until_year``, or a draw after ``evaluation.quiet_years``."""
        return self._with_ending(settings.until_year, settings.quiet_years)

    def check_evaluation(self, settings: Any) -> None:
        """Check that letters can be withheld as well."""
        super().check_evaluation(settings)
        if settings.muted and not self.settings.press_rounds:
            raise ValueError("evaluation.muted: without press there are no letters to withhold; set game.press_rounds")

    def evaluation_games(self, settings: Any, against: str, seed: int) -> list[EvaluationGame]:
        """Whole games, equally many as each country."""
        return super(Diplomacy, self.as_evaluated(settings)).evaluation_games(settings, against, seed)

    def opposition(self, against: str) -> str:
        """The anchor fills six seats, or several share them."""
        *others, last = against.split("+")
        return f"against {', '.join(others)} and {last} mixed" if others else f"against six {against}"

    def evaluation_facts(self, settings: Any) -> Mapping[str, str | int]:
        """The last year of the games, with quiet years the whole rule as text; the rules of letters; votes on draws."""
        whole = Ending(settings.until_year, settings.quiet_years)
        last = settings.until_year if whole.quiet_years is None else str(whole)
        votes = {"draw_votes": "yes"} if self.settings.draw_votes else {}
        return {"until_year": last, **self._press_facts(), **votes}

    def _press_facts(self) -> dict[str, str | int]:
        own, usual = self.settings, GameSettings()
        if not own.press_rounds:
            return {}
        public = {"press_public": "yes"} if own.press_public else {}
        length = {"press_length": own.press_length} if own.press_length != usual.press_length else {}
        budget = {} if own.press_budget is None else {"press_budget": own.press_budget}
        return {"press_rounds": own.press_rounds, **public, **length, **budget}

    def saved_game(
        self, game: Game, players: Mapping[str, SeatPlayer] | None, seed: int, commit: str, package_version: str
    ) -> str:
        """The game in the engine's format, with its origin."""
        from services.environments.diplomacy.game import DiplomacyGame
        from services.environments.diplomacy.game_origin import GameOrigin

        assert isinstance(game, DiplomacyGame)
        if players is not None:
            last, quiet = self.settings.until_year, self.settings.quiet_years
            game.origin = GameOrigin(players, seed, last, commit, package_version, quiet)
        return game.saved()

    def as_imitated(self, settings: Any) -> Diplomacy:
        """Games to the end of ``imitation.until_year``, or a draw after ``imitation.quiet_years``."""
        return self._with_ending(settings.until_year, settings.quiet_years)

    def check_imitation(self, settings: Any) -> None:
        """Check the bots in the other seats, and the one that is asked, as well."""
        super().check_imitation(settings)
        if settings.relabel is not None:
            check_bot("imitation.relabel", settings.relabel, self.bots)
        if settings.relabel_margin is not None and settings.relabel != "lookahead":
            raise ValueError('imitation.relabel_margin: only imitation.relabel = "lookahead" compares orders')
        for name in settings.against if settings.wanted else ():
            check_bot("imitation.against", name, self.bots)

    def make_teacher(self, settings: Any, game: Game) -> Bot:
        """A bot that looks ahead knows who may sit in the other seats."""
        if settings.teacher == "lookahead" and settings.against:
            from services.environments.diplomacy.bots.lookahead.lookahead import LookaheadBot

            teacher = LookaheadBot([_bot(name) for name in settings.against])
            return self._silent(teacher) if self.settings.press_rounds else teacher
        return super().make_teacher(settings, game)

    def make_others(self, settings: Any, role: str, seed: int) -> Mapping[str, Bot]:
        """One of ``imitation.against`` in every other seat; none if there are no such."""
        if not settings.against:
            return {}
        rng = random.Random(seed)
        return {power: self.make_bot(rng.choice(settings.against)) for power in POWERS if power != role}

    def teaching(self, settings: Any) -> str:
        """All seats are the teacher's, or one."""
        if settings.against:
            return f"playing games of one {settings.teacher} among {' and '.join(settings.against)}"
        return f"playing games of seven {settings.teacher}s"

    def saved_games(self, settings: Any) -> Sequence[Path]:
        """The files of ``imitation.saved_games``."""
        if settings.saved_games is None:
            return ()
        files = sorted(Path(settings.saved_games).glob("*.json"))
        if not files:
            raise ValueError(f"imitation.saved_games: {settings.saved_games} holds no *.json file")
        if settings.saved_players:
            from services.environments.diplomacy.saved_decisions import check_players

            check_players(files, settings.saved_players)
        return files

    def saved_demonstrations(self, settings: Any, file: Path) -> Iterator[Demonstration]:
        """The decisions in a game in the engine's saved format, as ``saved_decisions`` reads them."""
        from services.environments.diplomacy.saved_decisions import saved_decisions

        return saved_decisions(settings, file, DiplomacyLanguage())


class DatedDiplomacy(Diplomacy):
    """Diplomacy whose games know when each power was eliminated."""

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> DiplomacyGame:  # noqa: ARG002
        """A game from the standard opening."""
        from services.environments.diplomacy.dated_game import DatedGame

        return self.agree(DatedGame(self.settings.until_year, game_id or None, self.settings.quiet_years))


class MeasuredDiplomacy(Diplomacy):
    """Diplomacy whose results have all that ``measures/definitions.py`` defines, for evaluations of players."""

    measures = EVALUATED

    def new_game(self, start: str, role: str, seed: int, game_id: str = "") -> DiplomacyGame:  # noqa: ARG002
        """A game from the standard opening."""
        from services.environments.diplomacy.measures.measured_game import MeasuredGame

        return self.agree(MeasuredGame(self.settings.until_year, game_id or None, self.settings.quiet_years))

    @property
    def definitions(self) -> Mapping[str, str]:
        """What each measure is, and what others call it."""
        return {measure.row_name: definition(measure) for measure in self.measures}


WORLD = Diplomacy
