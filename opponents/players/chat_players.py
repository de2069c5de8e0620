"""The chat players of a configuration (``remote:NAME``), each opened at its first use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opponents.population.member import Member, PopulationError, release_checksum
from opponents.population.population import Population
from opponents.population.saved_players import saved_player
from opponents.settings import (
    PLAYER_PREFIX,
    REMOTE_PREFIX,
    ChatPlayerSettings,
    OpponentsSettings,
    saved_members,
    unknown_chat_player,
)
from services.environments.language import Language
from services.environments.registry import DEFAULT_WORLD, load_world
from services.inference.chat_endpoint.settings import EndpointError, read_api_key

if TYPE_CHECKING:
    from opponents.players.chat_policy import ChatPolicy

_REPORTED = ("decisions", "calls", "retries", "failures", "corrections", "defects", "held")


class ChatPlayers:
    """Opens chat players and sums their counters; for use in one event loop."""

    def __init__(self, settings: Mapping[str, ChatPlayerSettings], language: Language | None = None) -> None:
        """Take the players' tables and the language of the world they play; None: that of the default world."""
        self._settings = settings
        self._language = language or load_world(DEFAULT_WORLD).language
        self._open: dict[str, ChatPolicy] = {}

    def check(self, name: str) -> None:
        """Check that ``policy`` can open the player, without importing the client. Raises EndpointError as it does."""
        read_api_key(f"{REMOTE_PREFIX}{name}", _settings_of(name, self._settings))

    def policy(self, name: str) -> ChatPolicy:
        """The player of ``[opponents.remotes.<name>]``. Raises EndpointError without this table or its key."""
        if name not in self._open:
            # The client's library is slow to import.
            from opponents.players.chat_policy import ChatPolicy

            self._open[name] = ChatPolicy(name, _settings_of(name, self._settings), self._language)
        return self._open[name]

    def member(self, member: Member) -> ChatPolicy:
        """The player of ``member``. Raises as ``policy``, and PopulationError if its settings have changed."""
        policy = self.policy(member.name)
        if release_checksum(self._settings[member.name].identity) != member.checksum:
            raise PopulationError(
                f"{member.id} joined the population with other settings, or under another version of this package; "
                f"put [opponents.remotes.{member.name}] back, or give the new player a new name"
            )
        return policy

    def checksum(self, name: str) -> str:
        """The release checksum of the player's settings, as of a member. Raises EndpointError without its table."""
        return release_checksum(_settings_of(name, self._settings).identity)

    def stats(self) -> dict[str, Mapping[str, float]]:
        """The counters of every opened player, by name."""
        return {name: policy.stats() for name, policy in self._open.items()}

    def report(self) -> list[str]:
        """One line for every player with decisions: its counters and its cost."""
        return [_line(name, counters) for name, counters in self.stats().items() if counters["decisions"]]

    def totals(self) -> dict[str, float]:
        """The counters summed over players, with ``remote_`` before their names; empty when none was opened."""
        total: defaultdict[str, float] = defaultdict(float)
        for counters in self.stats().values():
            for key, value in counters.items():
                total[f"remote_{key}"] += value
        return dict(total)

    async def close(self) -> None:
        """Close all connections; the counters stay."""
        for policy in self._open.values():
            await policy.close()


def add_members(population: Population, settings: OpponentsSettings) -> None:
    """Add the configured bots, chat players and saved policies; of a run, its newest checkpoint is the player.

    Raises EndpointError if a chat player has no table, PopulationError if a saved policy is not there, CheckpointError
    if its folder has no weights, or as ``add``.
    """
    saved = saved_members(settings)
    for member, weight in settings.members.items():
        if (player := member.removeprefix(PLAYER_PREFIX)) in saved:
            population.add_saved_player(player, saved_player(player, saved[player]), weight=weight)
            continue
        if not member.startswith(REMOTE_PREFIX):
            population.add_bot(member, weight=weight)
            continue
        name = member.removeprefix(REMOTE_PREFIX)
        population.add_chat_player(name, _settings_of(name, settings.remotes).identity, weight=weight)


def _settings_of(name: str, known: Mapping[str, ChatPlayerSettings]) -> ChatPlayerSettings:
    try:
        return known[name]
    except KeyError:
        raise EndpointError(unknown_chat_player(name, known)) from None


def _line(name: str, counters: Mapping[str, float]) -> str:
    counted = ", ".join(f"{counter} {counters[counter]:,.0f}" for counter in _REPORTED)
    tokens = f"{counters['prompt_tokens']:,.0f} + {counters['completion_tokens']:,.0f}"
    unknown = f" (unknown of {counters['usage_unknown']:,.0f} calls)" if counters["usage_unknown"] else ""
    return f"remote:{name}: {counted}; tokens {tokens}{unknown}, cost {counters['cost']:.4f}"
