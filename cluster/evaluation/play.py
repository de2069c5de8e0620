"""Games without a cluster: one game between named players, and the evaluation of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from cluster.evaluation.event_loop import run_in_loop
from cluster.evaluation.players.opening import newest, open_policy
from cluster.evaluation.records.decision_recorder import DecisionRecorder
from cluster.evaluation.records.game_origins import describe_open, describe_player, game_origin
from cluster.evaluation.records.prompt_report import PromptReport
from cluster.runs.provenance import commit
from grpo_core.checkpoints.atomic_write import writing
from opponents.play import GameRecord, play_game
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.scoring.shares import Outcome
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Policy
from services.reports.game_viewer.decisions import decisions_path, write_decisions


def play(
    seats: Mapping[str, str | Policy],
    ending: Ending,
    seed: int,
    out: Path,
    remotes: ChatPlayers,
    prompts: PromptReport | None = None,
    decisions: DecisionRecorder | None = None,
    show: Callable[[DiplomacyGame], None] | None = None,
    *,
    world: Diplomacy | None = None,
) -> Outcome:
    """Play one game as ``play_out`` does and save it to ``out`` (JSON), with the record of who played.

    What ``decisions`` recorded is saved beside it; an earlier record there is removed.

    Raises StorageError too, if it cannot be saved.
    """
    game, _ = play_out(
        seats, ending, seed, remotes, game_id=out.stem, prompts=prompts, decisions=decisions, show=show, world=world
    )
    game.save(out)
    save_decisions(out, decisions)
    return game.outcome()


def save_decisions(saved_game: Path, decisions: DecisionRecorder | None) -> None:
    """Write the decisions beside a game that was just saved; without any, remove those of an earlier game."""
    found = None if decisions is None else decisions.recorded(saved_game.stem)
    if found is not None and found.decisions:
        write_decisions(saved_game, found)
        return
    with writing(decisions_path(saved_game)):
        decisions_path(saved_game).unlink(missing_ok=True)


def play_out(
    seats: Mapping[str, str | Policy],
    ending: Ending,
    seed: int,
    remotes: ChatPlayers,
    game_id: str | None = None,
    prompts: PromptReport | None = None,
    decisions: DecisionRecorder | None = None,
    show: Callable[[DiplomacyGame], None] | None = None,
    *,
    world: Diplomacy | None = None,
) -> tuple[DiplomacyGame, GameRecord]:
    """Play one game to its ending; the same seed plays the same game.

    ``seats`` has each power's player: an open one, or the name of a bot, checkpoint or run folder, or remote:NAME of
    ``remotes``, which are closed when the game is over. ``prompts`` collects what the named ones read, and
    ``decisions`` what they might have written and chose. ``show`` is called before the first phase and after each.
    ``world`` is what players and ``remotes`` are of, and says whether they vote on draws or write letters; None:
    neither.

    Raises RunError for an unknown player, EndpointError for an unknown remote player or one that does not answer.
    """
    names = sorted({each for each in seats.values() if isinstance(each, str)})
    chosen = {name: newest(name) for name in names}
    players = {name: open_policy(chosen[name], remotes, world=world) for name in names}
    described = {name: describe_player(chosen[name], remotes) for name in names}
    if decisions is not None:
        players = {name: decisions.watched(described[name].player, player) for name, player in players.items()}
    if prompts is not None:
        players = {name: prompts.watched(name, player) for name, player in players.items()}
    game = _ShownGame(show or (lambda _: None), ending, game_id)
    if world is not None:
        world.agree(game)
    game.origin = game_origin(
        {power: described[each] if isinstance(each, str) else describe_open(each) for power, each in seats.items()},
        seed=seed,
        ending=ending,
        commit=commit(),
    )

    async def play_to_end() -> GameRecord:
        try:
            game.show()
            seated = {power: players[each] if isinstance(each, str) else each for power, each in seats.items()}
            return await play_game(game, seated, seed)
        finally:
            await remotes.close()

    return game, run_in_loop(play_to_end)


class _ShownGame(DiplomacyGame):
    """A game that is shown after each phase."""

    def __init__(self, show: Callable[[DiplomacyGame], None], ending: Ending, game_id: str | None) -> None:
        super().__init__(ending.until_year, game_id, quiet_years=ending.quiet_years)
        self._show = show

    def show(self) -> None:
        self._show(self)

    def process(self) -> None:
        super().process()
        self.show()
