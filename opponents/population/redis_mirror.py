"""The population on the run's Redis server, for workers that do not see the run's folder; the file is the truth.

Keys, under ``entente:<run>:`` as those of the replay buffer: ``population`` (a hash of ``revision`` and ``document``)
and ``population:weights`` (SHA-256 -> safetensors of frozen policies, as many as fit).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from opponents.population.document import Document, decode, encode
from opponents.population.member import Member, PopulationError
from opponents.population.weights import check_weights
from services.replay.redis_store.connection import Connection

MIB = 1 << 20
_log = logging.getLogger(__name__)

# KEYS: population, weights. ARGV: revision, document, then checksums that no member needs. One step: whoever comes with
# an older revision changes nothing. Returns the revision that is there now.
_PUBLISH = """#!lua
local held = tonumber(redis.call('HGET', KEYS[1], 'revision') or '-1')
if held > tonumber(ARGV[1]) then return held end
redis.call('HSET', KEYS[1], 'revision', ARGV[1], 'document', ARGV[2])
for i = 3, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
return tonumber(ARGV[1])
"""


class PopulationMirror:
    """One run's population on the server at ``url``; connects at its first use, safe to share between threads."""

    def __init__(
        self, url: str, run_id: str, *, connect_timeout_s: float, limit_mib: int, answer_timeout_s: float | None = None
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: of the server.
            run_id: of the run, as for its replay buffer.
            connect_timeout_s: how long to try at first before giving up.
            limit_mib: room for frozen policies' weights, MiB in all; 0: none are kept.
            answer_timeout_s: how long later, when the server has answered before; None: the same.

        Raises:
            ReplayError: this is no Redis address.
        """
        self._connection = Connection(url, connect_timeout_s, answer_timeout_s)
        self._limit_bytes = limit_mib * MIB
        self._document, self._weights = f"entente:{run_id}:population", f"entente:{run_id}:population:weights"
        self._publish = self._connection.client.register_script(_PUBLISH)

    def publish(self, document: Document, population_file: Path) -> bool:
        """Bring the mirror up to a state that was saved in a file; whether it had no newer one already.

        Weights come before the document that names them. What is kept stays when its file is gone. What is not kept
        yet and has a damaged file is left out, with a warning: perhaps it will never be drawn.

        Raises:
            ReplayError: the server does not answer, or has no room.
        """
        client: Any = self._connection.client  # its stubs allow text in replies, which we did not ask for
        held = self._connection.call("list weights", self._sizes)
        wanted = self._fitting(document, population_file, held)
        for member in wanted:
            if member.checksum in held:
                continue
            try:
                data = read_file(member, population_file)
            except PopulationError as error:
                _log.warning("%s: not mirrored", error)
                continue
            put = partial(client.hset, self._weights, member.checksum, data)
            self._connection.call(f"keep the weights of {member.id}", put)
        unwanted = sorted(held.keys() - {member.checksum for member in wanted})
        arguments: list[int | bytes | str] = [document.revision, encode(document), *unwanted]
        publish = partial(self._publish, keys=[self._document, self._weights], args=arguments)
        return int(self._connection.call("publish the population", publish)) == document.revision

    def read(self) -> Document | None:
        """The newest state published; None before the first.

        Raises:
            PopulationError: what is there is no population.
            ReplayError: the server does not answer.
        """
        client: Any = self._connection.client
        ask = partial(client.hget, self._document, "document")
        text = self._connection.call("read the population", ask)
        return None if text is None else decode(text, f"the population at {self._connection.shown_url}")

    def weights(self, member: Member) -> bytes | None:
        """A policy's verified weights; None where they are not kept.

        Raises:
            PopulationError: they are not the member's.
            ReplayError: the server does not answer.
        """
        client: Any = self._connection.client
        ask = partial(client.hget, self._weights, member.checksum)
        data: bytes | None = self._connection.call(f"read the weights of {member.id}", ask)
        if data is None:
            return None
        return check_weights(member.id, data, member.checksum, f"the copy at {self._connection.shown_url}")

    def clear(self) -> None:
        """Take the document away: a process that begins to train publishes the file, whatever was there before.

        Raises:
            ReplayError: the server does not answer.
        """
        client: Any = self._connection.client
        self._connection.call("begin with the population", lambda: client.delete(self._document))

    def close(self) -> None:
        """Drop the sockets."""
        self._connection.close()

    def _sizes(self) -> dict[str, int]:
        """Bytes of every policy kept, by checksum."""
        client: Any = self._connection.client
        names = [name.decode() for name in client.hkeys(self._weights)]
        return {name: int(client.hstrlen(self._weights, name)) for name in names}

    def _fitting(self, document: Document, population_file: Path, held: Mapping[str, int]) -> list[Member]:
        """Policies whose weights fit: pinned ones first, then the newest; last those drawn no more, if kept already.

        Blocks against these may still be played, or played again after a restart.
        """
        policies = [member for member in document.members if member.kind == "policy"]
        drawn = [member for member in policies if not member.retired and member.weight > 0]
        past = [member for member in policies if member not in drawn and member.checksum in held]
        room, chosen = self._limit_bytes, []
        for member in (*_newest_first(drawn), *_newest_first(past)):
            path = population_file.parent / member.name
            size = held.get(member.checksum) or (path.stat().st_size if path.is_file() else 0)
            if 0 < size <= room:
                room -= size
                chosen.append(member)
        return chosen


def frozen_weights(member: Member, population_file: Path, mirror: PopulationMirror | None) -> bytes:
    """A policy's weights, from its file where this machine sees it, else from the mirror; always verified.

    Raises:
        PopulationError: they are damaged, or in neither place.
        ReplayError: the mirror's server does not answer.
    """
    path = population_file.parent / member.name
    if path.exists():
        return read_file(member, population_file)
    data = None if mirror is None else mirror.weights(member)
    if data is None:
        raise PopulationError(
            f"{member.id}: this machine does not see its weights {path}, and Redis does not keep them; share the run's "
            "folder, or raise opponents.mirror_mib"
        )
    return data


def read_file(member: Member, population_file: Path) -> bytes:
    """A policy's weights from its file; PopulationError where it cannot be read or is not what was recorded."""
    path = population_file.parent / member.name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PopulationError(f"{member.id}: cannot read its weights {path}: {error.strerror}") from error
    return check_weights(member.id, data, member.checksum, str(path))


def _newest_first(members: Iterable[Member]) -> list[Member]:
    return sorted(
        members, key=lambda member: (not member.pinned, -member.created_at_update, -member.version, member.id)
    )
