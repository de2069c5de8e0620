"""Games without a cluster: one game between named players, and the evaluation of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster.evaluation.event_loop import run_in_loop
from cluster.evaluation.game_origins import describe_open, describe_player, game_origin
from cluster.evaluation.players import newest, open_policy
from cluster.evaluation.prompt_report import PromptReport
from cluster.runs.provenance import commit
from opponents.play import GameRecord, play_game
from opponents.players.chat_players import ChatPlayers
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.scoring import Outcome
from services.environments.playing import Policy

CONCURRENT_GAMES = 64


def play(
    seats: Mapping[str, str | Policy],
    ending: Ending,
    seed: int,
    out: Path,
    remotes: ChatPlayers,
    prompts: PromptReport | None = None,
) -> Outcome:
    """Play one game as ``play_out`` does and save it to ``out`` (JSON), with the record of who played.

    Raises StorageError too, if it cannot be saved.
    """
    game, _ = play_out(seats, ending, seed, remotes, game_id=out.stem, prompts=prompts)
    game.save(out)
    return game.outcome()


def play_out(
    seats: Mapping[str, str | Policy],
    ending: Ending,
    seed: int,
    remotes: ChatPlayers,
    game_id: str | None = None,
    prompts: PromptReport | None = None,
) -> tuple[DiplomacyGame, GameRecord]:
    """Play one game to its ending; the same seed plays the same game.

    ``seats`` has each power's player: an open one, or the name of a bot, checkpoint or run folder, or remote:NAME of
    ``remotes``, which are closed when the game is over. ``prompts`` collects what the named ones read.

    Raises RunError for an unknown player, EndpointError for an unknown remote player or one that does not answer.
    """
    names = sorted({each for each in seats.values() if isinstance(each, str)})
    chosen = {name: newest(name) for name in names}
    players = {name: open_policy(chosen[name], remotes) for name in names}
    if prompts is not None:
        players = {name: prompts.watched(name, player) for name, player in players.items()}
    described = {name: describe_player(chosen[name], remotes) for name in names}
    game = DiplomacyGame(ending.until_year, game_id, quiet_years=ending.quiet_years)
    game.origin = game_origin(
        {power: described[each] if isinstance(each, str) else describe_open(each) for power, each in seats.items()},
        seed=seed,
        ending=ending,
        commit=commit(),
    )

    async def play_to_end() -> GameRecord:
        try:
            seated = {power: players[each] if isinstance(each, str) else each for power, each in seats.items()}
            return await play_game(game, seated, seed)
        finally:
            await remotes.close()

    return game, run_in_loop(play_to_end)
