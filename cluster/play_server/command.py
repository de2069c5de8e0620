"""What the options of ``entente play --web`` mean: players by name, seats, and where it listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from cluster.errors import RunError
from cluster.evaluation.players.opening import check_player, parse_seats
from cluster.play_server.seats import PERSON, Kind, Source
from grpo_core.checkpoints.folders import checkpoint_versions
from grpo_core.errors import one_line
from opponents.champion.shipped import CHAMPION
from opponents.players.chat_players import ChatPlayers
from opponents.population.population import Population
from opponents.settings import REMOTE_PREFIX
from services.environments.diplomacy.world import Diplomacy
from services.inference.engine import LEARNER

LONGEST_NAME = 80  # characters of a player's name on the page


def play_in_browser(
    *,
    host: str,
    port: int,
    allow_network: bool,
    games_dir: Path,
    seats: Sequence[str],
    default: str,
    players: Sequence[str],
    runs: Sequence[Path],
    until: str,
    seed: int,
    open_browser: bool,
    remotes: ChatPlayers,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Check the options and serve until a signal ends it, which raises KeyboardInterrupt.

    Raises RunError for a wrong option, and as ``check_player`` and ``serve``.
    """
    if not is_loopback(host):
        if not allow_network:
            raise RunError(
                f"--host {host} lets others in the network reach the page: if you mean it, add --allow-network"
            )
        warn(
            f"others in the network can reach {host}:{port}. The token is sent unencrypted, and all who have the "
            "address may play; the engine's licence (AGPL-3.0) applies to those whom you let use it"
        )
    seated = parse_seats(list(seats), default)
    sources = player_sources(players, runs, remotes)
    for name in dict.fromkeys(seated.values()):
        if (name not in sources or name == CHAMPION) and name != PERSON:
            check_player(name, remotes)
            sources[name] = Source(_kind(name), name)
    # The engine and the web server are slow to import; wrong options need neither.
    from cluster.play_server.server import Settings, serve

    settings = Settings(host, port, games_dir, seated, until, seed, open_browser, PERSON in seated.values())
    serve(settings, sources, remotes, say)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def player_sources(players: Sequence[str], runs: Sequence[Path], remotes: ChatPlayers) -> dict[str, Source]:
    """All players that can be seated, by the names that the page shows: bots, the champion, NAME=PATH, and populations.

    Raises RunError for an assignment of another form or a name that is taken, and as ``check_player`` and
    ``Population.load``.
    """
    sources = {name: Source("bot", name) for name in Diplomacy.bots}
    sources[CHAMPION] = Source("policy", CHAMPION, is_opened_ahead=False)
    for text in players:
        name, _, path = (part.strip() for part in text.partition("="))
        if not path or not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise RunError(f"--player {one_line(repr(text), 120)} is not NAME=PATH, e.g. --player mine=runs/demo")
        check_player(path, remotes)
        _add(sources, name, Source(_kind(path), path))
    for run in runs:
        population = Population.load(run / "population.json")
        members = [each for each in population.active() if each.kind == "policy" and each.country is None]
        run_name = run.absolute().name[: LONGEST_NAME // 2]
        for member in members:
            _add(
                sources,
                f"{run_name} {member.id.removeprefix('policy/')}"[:LONGEST_NAME],
                Source("policy", member.id, run),
            )
        if checkpoint_versions(run):
            _add(sources, f"{run_name} newest", Source("policy", LEARNER, run))
    return sources


def _add(sources: dict[str, Source], name: str, source: Source) -> None:
    if name in sources or name == PERSON:
        raise RunError(f"two players are called {one_line(repr(name), 100)}; give one another name")
    sources[name] = source


def _kind(name: str) -> Kind:
    if name in Diplomacy.bots:
        return "bot"
    return "remote" if name.startswith(REMOTE_PREFIX) else "policy"
