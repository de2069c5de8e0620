"""Describes the players of a game for the record that its saved file carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cluster.evaluation.players.members import find_member, member_name
from cluster.evaluation.players.opening import name_of
from cluster.runs.folder import EXPORTED, sampling_of
from grpo_core.checkpoints.folders import MANIFEST, latest_checkpoint, read_manifest, weights_checksum
from grpo_core.errors import one_line
from grpo_core.files import read_json
from grpo_core.types import PolicyVersion
from opponents.champion.shipped import CHAMPION, as_folder, shipped_champion
from opponents.player_names import PROPOSAL_TEMPERATURE, player_name, with_saved
from opponents.players.chat_players import ChatPlayers
from opponents.population.member import package_version, release_checksum
from opponents.settings import PLAYER_PREFIX, REMOTE_PREFIX
from services.environments.diplomacy.ending import Ending
from services.environments.diplomacy.game_origin import GameOrigin
from services.environments.playing import Policy
from services.environments.seat_player import SeatPlayer

_LONGEST_NAME = 200  # characters; longer ones are no names to a reader of saved games


def game_origin(seats: Mapping[str, SeatPlayer], *, seed: int, ending: Ending, commit: str) -> GameOrigin:
    """Return the record of a game of these players, by power, under the installed version of this package."""
    return GameOrigin(seats, seed, ending.until_year, commit, package_version(), ending.quiet_years)


def describe_bot(name: str) -> SeatPlayer:
    """Describe a bot: its code changes only with a release, so its checksum is that of its name and release."""
    return SeatPlayer(name, "bot", checksum=release_checksum(name))


def describe_learner(run_name: str, weights: PolicyVersion, decoding: str, temperature: float) -> SeatPlayer:
    """Describe the policy of a run in training; its checksum is that of the published weights, as a snapshot's is."""
    player = f"{run_name}/checkpoints/{weights.number}"
    return SeatPlayer(player, "learner", weights.number, weights.checksum or None, decoding, temperature)


def describe_member(member_id: str, decoding: str, temperature: float) -> SeatPlayer:
    """Describe an opponent of a training game by its id in the population, which holds its version and checksum."""
    kind, _, name = member_id.partition("/")
    if kind == "bot":
        return describe_bot(name)
    if kind == "remote":
        return SeatPlayer(f"{REMOTE_PREFIX}{name}", "remote")
    if kind == "player":  # its sampling is its own, and the population has its version and checksum
        return SeatPlayer(f"{PLAYER_PREFIX}{name}", "checkpoint")
    return SeatPlayer(member_id, "checkpoint", decoding=decoding, temperature=temperature)


def describe_open(player: Policy) -> SeatPlayer:
    """Describe a player that a program made or opened: by its ``description`` from its opening, else by its name."""
    description = getattr(player, "description", None)
    if isinstance(description, SeatPlayer):
        return description
    return SeatPlayer(one_line(name_of(player), _LONGEST_NAME), "program")


def describe_player(
    name: str, remotes: ChatPlayers, *, temperature: float | None = None, evaluation: bool = False
) -> SeatPlayer:
    """Describe the player that ``open_policy`` opens with the same arguments, by names without the machine's paths.

    Raises EndpointError if there is no such remote player, CheckpointError if the weights cannot be read.
    """
    saved, looks_ahead, _ = player_name(name)
    if looks_ahead and temperature is None:
        temperature = PROPOSAL_TEMPERATURE
    found = _describe_saved(saved, remotes, temperature, evaluation)
    return found if saved == name else replace(found, player=with_saved(name, found.player))


def _describe_saved(name: str, remotes: ChatPlayers, temperature: float | None, evaluation: bool) -> SeatPlayer:
    if name.startswith(REMOTE_PREFIX):
        return SeatPlayer(name, "remote", checksum=remotes.checksum(name.removeprefix(REMOTE_PREFIX)))
    if (named := member_name(name)) is not None:
        return _describe_member(*named, temperature, evaluation)
    champion = shipped_champion() if name == CHAMPION else None
    path = Path(name) if champion is None else champion.folder
    if not path.is_dir():
        return describe_bot(name)
    config, folder = sampling_of(path), latest_checkpoint(path) or path
    if temperature is None:
        temperature = config.evaluation.temperature if evaluation else config.inference.temperature
    decoding = config.inference.decoding
    if champion is not None:
        return SeatPlayer(CHAMPION, "shipped", champion.version, champion.checksum, decoding, temperature)
    shown, version = _exported(folder, config.world.roles) or _in_a_run(folder)
    return SeatPlayer(shown, "checkpoint", version, weights_checksum(folder), decoding, temperature)


def _describe_member(run: Path, member_id: str, temperature: float | None, evaluation: bool) -> SeatPlayer:
    _, member = find_member(run, member_id)
    if member.kind == "bot":
        return describe_bot(member.name)
    config = sampling_of(run)
    if temperature is None:
        temperature = config.evaluation.temperature if evaluation else config.inference.temperature
    shown = one_line(f"{run.name}:{member.id}", _LONGEST_NAME)
    return SeatPlayer(shown, "checkpoint", member.version, member.checksum, config.inference.decoding, temperature)


def _in_a_run(folder: Path) -> tuple[str, int | None]:
    """The name and version of a checkpoint or, without a version, of any model's folder."""
    version = read_manifest(folder)["version"] if (folder / MANIFEST).exists() else None
    parts = folder.absolute().parts
    return as_folder("/".join(parts[-3:] if "checkpoints" in parts[-2:-1] else parts[-1:])), version


def _exported(folder: Path, roles: Sequence[str]) -> tuple[str, int] | None:
    """The name and version of the checkpoint that an exported policy's folder was made of; None if it does not say.

    Of a specialist the name ends in its role, which is one of ``roles``.
    """
    try:
        made = read_json(folder / EXPORTED)
        run_name, version, country = made["config"]["run"]["name"], made["version"], made["country"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(run_name, str) or type(version) is not int or country not in (None, *roles):
        return None
    of_country = "" if country is None else f"/{country}"
    return one_line(f"{run_name}/checkpoints/{version}{of_country}", _LONGEST_NAME), version
