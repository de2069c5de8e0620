"""A copy of the population on the run's Redis server, for workers without access to the run's folder.

The file stays authoritative. The keys are under ``entente:<run>:``, as in the replay buffer: ``population`` (a hash of
``revision`` and ``document``) and ``population:weights`` (SHA-256 -> safetensors of frozen policies, as many as fit).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from opponents.population.document import Document, decode, encode
from opponents.population.member import Member, PopulationError
from opponents.population.weights import check_checksum, read_weights
from services.replay.redis_store.connection import Connection

MIB = 1 << 20
MAX_DOCUMENT_BYTES = 64 * MIB  # thousands of times a large population
MAX_FIELDS = 10_000  # of the kept weights; a run keeps some hundred
_log = logging.getLogger(__name__)

# KEYS: population, weights. ARGV: revision, document, then checksums that no member needs. An atomic step: a call with
# an older revision changes nothing; one that is no number, which something else wrote, is older than any. Returns the
# revision stored afterwards.
_PUBLISH = """#!lua
local found = redis.call('HGET', KEYS[1], 'revision') or ''
local held = string.find(found, '^%d+$') and #found < 16 and tonumber(found) or -1
if held > tonumber(ARGV[1]) then return held end
redis.call('HSET', KEYS[1], 'revision', ARGV[1], 'document', ARGV[2])
for i = 3, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
return tonumber(ARGV[1])
"""


class PopulationMirror:
    """One run's population on a Redis server; connects at its first use, safe to share between threads."""

    def __init__(
        self,
        url: str,
        run_id: str,
        *,
        connect_timeout_s: float,
        limit_mib: int,
        answer_timeout_s: float | None = None,
        away_timeout_s: float | None = None,
        patient: bool = False,
    ) -> None:
        """Set the address; ReplayError if ``url`` is not a Redis address.

        ``limit_mib`` bounds the weights of frozen policies in all; 0: none are kept. The time limits are those of
        ``Connection``.
        """
        self._connection = Connection(url, connect_timeout_s, answer_timeout_s, away_timeout_s, patient=patient)
        self._limit_bytes = limit_mib * MIB
        self._document, self._weights = f"entente:{run_id}:population", f"entente:{run_id}:population:weights"
        self._client: Any = self._connection.client  # its stubs allow text replies, which are not requested here
        self._warned = False
        self._publish = self._client.register_script(_PUBLISH)

    def publish(self, document: Document, population_file: Path) -> bool:
        """Copy a saved state to the server; returns False if the server already had a newer one.

        Weights are written before the document that names them. A member with a damaged file and no copy yet is left
        out with a warning. Raises ReplayError if the server does not answer, or is full.
        """
        held = self._connection.call("list weights", partial(self._sizes, document))
        wanted = self._fitting(document, population_file, held)
        for member in wanted:
            if member.checksum.encode() in held:
                continue
            try:
                data = read_weights(member, population_file)
            except PopulationError as error:
                _log.warning("%s: not mirrored", error)
                continue
            put = partial(self._client.hset, self._weights, member.checksum, data)
            self._connection.call(f"keep the weights of {member.id}", put)
        unwanted = sorted(held.keys() - {member.checksum.encode() for member in wanted})
        arguments: list[int | bytes] = [document.revision, encode(document), *unwanted]
        publish = partial(self._publish, keys=[self._document, self._weights], args=arguments)
        return int(self._connection.call("publish the population", publish)) == document.revision

    def read(self) -> Document | None:
        """The newest published state; None before the first.

        Raises PopulationError if the stored value is not a population, ReplayError if the server does not answer.
        """
        text = self._value("read the population", self._document, "document", MAX_DOCUMENT_BYTES)
        return None if text is None else decode(text, f"the population at {self._connection.shown_url}")

    def weights(self, member: Member) -> bytes | None:
        """A policy's verified weights; None if they are not kept.

        Raises PopulationError if they are not the recorded ones, ReplayError if the server does not answer.
        """
        what = f"read the weights of {member.id}"
        data = self._value(what, self._weights, member.checksum, max(self._limit_bytes, MIB))
        if data is None:
            return None
        check_checksum(member, hashlib.sha256(data).hexdigest(), f"the copy at {self._connection.shown_url}")
        return data

    def clear(self) -> None:
        """Remove the document, so that a new training process can publish its file; ReplayError without an answer."""
        self._connection.call("remove the old population", partial(self._client.delete, self._document))

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _value(self, what: str, key: str, field: str, most_bytes: int) -> bytes | None:
        """Read a field of a hash; None if it is missing. Raises PopulationError for more bytes than a run writes."""
        size = int(self._connection.call(what, partial(self._client.hstrlen, key, field)))
        if size > most_bytes:
            raise PopulationError(
                f"cannot {what}: {key} at {self._connection.shown_url} has {size:,} bytes there, more than the "
                f"{most_bytes:,} that a run keeps; something else wrote it: remove it by HDEL {key} {field}"
            )
        data: bytes | None = self._connection.call(what, partial(self._client.hget, key, field))
        return data

    def _sizes(self, document: Document) -> dict[bytes, int]:
        """Size in bytes of every kept policy, by checksum; fields that something else wrote are among them.

        Where those are too many to be read, there are only the policies of ``document``.
        """
        few = self._client.hlen(self._weights) <= MAX_FIELDS
        if few:
            names = self._client.hkeys(self._weights)
        else:
            names = [member.checksum.encode() for member in document.members if member.kind == "policy"]
        if not (few or self._warned):
            self._warned = True
            _log.warning("%s has over %d fields: something else wrote them, and they stay", self._weights, MAX_FIELDS)
        sizes = {name: int(self._client.hstrlen(self._weights, name)) for name in names}
        return {name: size for name, size in sizes.items() if size or few}

    def _fitting(self, document: Document, population_file: Path, held: Mapping[bytes, int]) -> list[Member]:
        """Policies whose weights fit: pinned ones first, then the newest; last retired ones that are kept already.

        Blocks against retired ones may still be played, or played again after a restart.
        """
        policies = [member for member in document.members if member.kind == "policy"]
        drawn = [member for member in policies if not member.retired and member.weight > 0]
        past = [member for member in policies if member not in drawn and member.checksum.encode() in held]
        room, chosen = self._limit_bytes, []
        for member in (*_newest_first(drawn), *_newest_first(past)):
            path = population_file.parent / member.name
            size = held.get(member.checksum.encode()) or (path.stat().st_size if path.is_file() else 0)
            if 0 < size <= room:
                room -= size
                chosen.append(member)
        return chosen


def frozen_weights(member: Member, population_file: Path, mirror: PopulationMirror | None) -> bytes:
    """A policy's verified weights, from its file if this machine has it, else from the mirror.

    Raises PopulationError if they are damaged or in neither place, ReplayError if the mirror's server does not answer.
    """
    path = population_file.parent / member.name
    if path.exists():
        return read_weights(member, population_file)
    data = None if mirror is None else mirror.weights(member)
    if data is None:
        raise PopulationError(
            f"{member.id}: this machine does not see its weights {path}, and Redis does not keep them; share the run's "
            "folder, or raise opponents.mirror_mib"
        )
    return data


def _newest_first(members: Iterable[Member]) -> list[Member]:
    return sorted(
        members, key=lambda member: (not member.pinned, -member.created_at_update, -member.version, member.id)
    )
