"""Games from Python: one game between any players, and the evaluation of one of them."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from warnings import warn

from cluster.api.arguments import (
    LARGEST_SEED,
    MOST_GAMES,
    MOST_PRESS_ROUNDS,
    check_ending,
    check_seats,
    check_temperature,
    check_whole,
)
from cluster.api.player import Player
from cluster.api.rows import Rows
from cluster.configs.loader import Source
from cluster.errors import RunError
from grpo_core.errors import one_line
from opponents.champion.shipped import name_of_path
from services.environments.diplomacy.ending import END, TO_THE_END

if TYPE_CHECKING:
    from opponents.play import GameRecord
    from services.environments.diplomacy.game import DiplomacyGame
    from services.environments.diplomacy.position import Position
    from services.environments.diplomacy.scoring.shares import Outcome
    from services.environments.diplomacy.settings import GameSettings
    from services.environments.playing import Decision, Policy
    from services.reports.game_viewer.decisions import GameDecisions

# A bot's name, champion, remote:NAME, a folder or ``Run``, an open player, or an object of your own with an async
# method ``act``.
AnyPlayer: TypeAlias = "str | os.PathLike[str] | Player | Policy"


class Game:
    """A finished game: how it ended, and its files. A notebook shows it phase by phase."""

    def __init__(
        self,
        game: DiplomacyGame,
        record: GameRecord,
        seats: Mapping[str, str],
        decisions: GameDecisions | None = None,
    ) -> None:
        self.record = record
        self.decisions = decisions  # what language models read and might have written; None: not recorded
        self.seats = dict(seats)  # power -> player's name
        self._game = game

    @property
    def outcome(self) -> Outcome:
        """How the game ended: final centres, kind of ending, winners, last year and number of phases."""
        return self._game.outcome()

    @property
    def centers(self) -> dict[str, int]:
        """Final supply centres by power, the most first."""
        return dict(sorted(self.outcome.centers.items(), key=lambda item: (-item[1], item[0])))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the game in the engine's own format (JSON) and return the path; raises StorageError.

        Recorded decisions are written beside it, into ``<name>.decisions.json.gz``.
        """
        self._game.save(Path(path))
        if self.decisions is not None:
            from services.reports.game_viewer.decisions import write_decisions

            write_decisions(Path(path), self.decisions)
        return Path(path)

    def html(self, path: str | os.PathLike[str]) -> Path:
        """Write a page that shows the game phase by phase, with recorded decisions, and return its path.

        The page needs no network.

        Raises StorageError.
        """
        from services.reports.page import write_page

        return write_page(Path(path), self._page())

    def __repr__(self) -> str:
        outcome = self.outcome
        centers = ", ".join(f"{power} {count}" for power, count in self.centers.items())
        kind = outcome.kind.replace("_", " ")
        return f"<entente.Game {kind} after {outcome.phases} phases, {outcome.final_year}: {centers}>"

    def _repr_html_(self) -> str:
        page = html.escape(self._page(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 720px; border: 0" title="the game"></iframe>'

    def _page(self) -> str:
        from services.environments.diplomacy.measures.press.story import press_story
        from services.reports.game_viewer.game_viewer import viewer_page

        return viewer_page(json.loads(self._game.saved()), self.decisions, tell_press=press_story)[0]


def play(
    seats: Mapping[str, AnyPlayer] | None = None,
    *,
    default: AnyPlayer = "random",
    until_year: int | str = 1910,
    seed: int = 7,
    config: Source | None = None,
    decisions: bool = False,
    draw_votes: bool = False,
    press: bool = False,
    press_rounds: int | None = None,
    public_press: bool | None = None,
) -> Game:
    """Play one game to the end of ``until_year`` (1901 to 1999); the same seed (0 to 2^53) plays the same game.

    ``until_year="end"`` plays it to the end: to 1935, or a draw after five years without a change of centres.
    The game's id is made of its seed and its last year or ``end``. ``seats`` maps powers, in any case, to their
    players; ``default`` plays all others. A player is a bot's name, ``champion`` (the policy that comes with the
    package), a checkpoint or run (a folder or a ``Run``), ``remote:NAME`` of ``config``'s ``[opponents.remotes]``, an
    open ``Player``, or an object of your own with ``async def act(position, power, seed)`` that returns a ``Decision``.

    ``decisions`` records what players given by a checkpoint, run or ``remote:NAME`` read, each legal order's
    probability and what they chose, for ``Game.html`` and ``Game.save``. With ``draw_votes`` a game is also a draw of
    all survivors when all powers with units vote for it with the same movement orders, as bots do after two years
    without a change of centres, who alone has most after four. With ``press`` rounds of letters come before each
    movement phase, by the rules of the first saved policy that was trained with letters, else two of private ones;
    ``press_rounds`` (1 to 10) and ``public_press`` go first. A warning names policies that were trained with others.

    Raises RunError for an unknown power, player or argument, CheckpointError for a folder that is not a usable
    checkpoint, EndpointError for an unknown remote player or one that does not answer.
    """
    ending = check_ending("until_year", until_year)
    until = END if ending == TO_THE_END else ending.until_year
    seed = check_whole("seed", seed, 0, LARGEST_SEED)
    seated = check_seats(seats)
    from cluster.evaluation.play import play_out
    from cluster.evaluation.players.opening import agreeing_world, chat_players, name_of
    from services.environments.diplomacy.position import POWERS

    players = {power: _named_or_open(seated.get(power, default)) for power in POWERS}
    recorder = None
    if decisions:
        from cluster.evaluation.records.decision_recorder import DecisionRecorder

        recorder = DecisionRecorder()
    game_id = f"{seed}-{until}"
    rules = _press_rules(players.values(), press=press, rounds=press_rounds, public=public_press)
    world = agreeing_world(draw_votes=draw_votes, press=rules)
    remotes = chat_players(config, world)
    game, record = play_out(players, ending, seed, remotes, game_id=game_id, decisions=recorder, world=world)
    names = {power: name_of(player) for power, player in players.items()}
    return Game(game, record, names, None if recorder is None else recorder.recorded(game_id))


def evaluate(
    player: AnyPlayer,
    against: AnyPlayer | Sequence[AnyPlayer] = "random",
    *,
    games_per_country: int = 10,
    until_year: int | str = 1910,
    seed: int = 0,
    temperature: float | None = None,
    config: Source | None = None,
    press: bool = False,
    press_rounds: int | None = None,
    public_press: bool | None = None,
    progress: bool = False,
) -> Rows:
    """Measure a player against six of each opponent, all seven countries alike, with 95 % intervals.

    Players are given as for ``play``. ``temperature`` is the sampling temperature of a player that is given by its
    checkpoint or run; None: ``evaluation.temperature`` of its run. The same ``seed`` gives every player the same games.
    ``until_year``, ``press``, ``press_rounds`` and ``public_press`` are as for ``play``; rows have the rule in words
    for ``end``, and the rules and figures of press. ``progress`` shows it on standard error.

    Returns a row for each opponent: ``checkpoint`` with ``version`` and ``checksum`` of its weights, ``against`` with
    ``against_version`` and ``against_checksum``, ``games``, ``until_year``, and measures, each with
    ``..._ci95``: ``mean_centers``, ``sum_of_squares``, ``solo_rate``, ``lead_rate`` (ties count),
    ``lead_rate_ties_split``, ``survival_rate``, ``mean_rank`` and more. ``definitions`` says what each one is, and
    ``by_country`` has all of them for each country.

    Raises as ``play``.
    """
    opponents = _several(against)
    if not opponents:
        raise RunError('against names no player; give bots, e.g. against=["random", "dumbbot"]')
    games_per_country = check_whole("games_per_country", games_per_country, 1, MOST_GAMES)
    ending = check_ending("until_year", until_year)
    seed = check_whole("seed", seed, 0, LARGEST_SEED)
    temperature = check_temperature(temperature)
    from cluster.evaluation.evaluate import diplomacy_request, evaluation_rows
    from cluster.evaluation.evaluate import evaluate as measure
    from cluster.evaluation.players.opening import agreeing_world, chat_players, sharing_players
    from cluster.evaluation.tables.places import this_process
    from cluster.runs.progress_bars import progress_bars

    candidates, anchors = [_named_or_open(player)], [_named_or_open(each) for each in opponents]
    met = [each for anchor in anchors for each in sharing_players(anchor)]
    rules = _press_rules((*candidates, *met), press=press, rounds=press_rounds, public=public_press)
    request = diplomacy_request(games_per_country, ending, press=rules, seed=seed, temperature=temperature)
    place = partial(this_process, remotes=chat_players(config, agreeing_world(draw_votes=False, press=rules)))
    with ExitStack() as stack:
        add_bar = stack.enter_context(progress_bars()) if progress else None
        measured = measure(request, candidates, anchors, place, add_bar)
    return Rows(evaluation_rows(request, candidates, measured))


class _Seated:
    """An open player in a game, whose event loop is another one than the player's."""

    def __init__(self, player: Player) -> None:
        self.name = player.name
        self.description = player.description
        self._player = player

    async def act(self, position: Position, power: str, seed: int) -> Decision:
        return await self._player.act_async(position, power, seed)


def _press_rules(
    players: Iterable[str | Policy], *, press: bool, rounds: int | None, public: bool | None
) -> GameSettings | None:
    """The rules of letters between these players; None without letters. Warns of policies trained with other rules."""
    from cluster.evaluation.players.press_rules import chosen_press

    if rounds is not None:
        rounds = check_whole("press_rounds", rounds, 1, MOST_PRESS_ROUNDS)
    names = [each for each in players if isinstance(each, str)]
    rules, warning = chosen_press(names, press=press, rounds=rounds, public=public)
    if warning is not None:
        warn(warning, stacklevel=3)
    return rules


def _several(players: AnyPlayer | Sequence[AnyPlayer]) -> list[AnyPlayer]:
    if isinstance(players, str | os.PathLike) or hasattr(players, "act") or not isinstance(players, Iterable):
        return [players]
    return list(players)


def _named_or_open(player: AnyPlayer) -> str | Policy:
    if isinstance(player, Player):
        return _Seated(player)
    if isinstance(player, str | os.PathLike):
        return name_of_path(player)
    if not hasattr(player, "act"):
        shown = one_line(repr(player), 80)
        raise RunError(
            f"{shown} is no player: give a bot's name, champion, a folder, remote:NAME or an object with act"
        )
    return player
