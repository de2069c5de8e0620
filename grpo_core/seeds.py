"""Seeds and digests that are the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import json


def derive_seed(*parts: int | str) -> int:
    """An independent seed in [0, 2**63) for every distinct tuple of parts."""
    text = json.dumps(parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def digest(value: object) -> str:
    """Eight bytes of BLAKE2b over the value's JSON, as hexadecimal text."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()
