from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from grpo_core.types import PolicyVersion
from services.weights.payload import Payload, WeightsError, make_payload, make_role_payload, verify

DATA = bytes(range(256)) * 4


def test_the_checksum_depends_on_the_data_and_not_on_the_version() -> None:
    first, again, other = make_payload(1, DATA), make_payload(2, DATA), make_payload(1, DATA[1:])
    assert first.checksum == again.checksum != other.checksum
    assert first.policy_version == PolicyVersion(1, first.checksum)


def test_one_changed_bit_is_detected() -> None:
    payload = make_payload(7, DATA)
    data = bytearray(payload.data)
    data[-1] ^= 1
    verify(payload)
    with pytest.raises(WeightsError, match="version 7 are damaged"):
        verify(replace(payload, data=bytes(data)))


def test_a_role_payload_without_roles_is_refused() -> None:
    with pytest.raises(WeightsError, match="version 3 has no role adapter"):
        make_role_payload(3, {})


def test_an_object_store_shares_the_bytes_with_the_reader() -> None:
    payload = make_payload(7, DATA)
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(payload, protocol=5, buffer_callback=buffers.append)
    assert len(message) < 300  # the bytes themselves are sent separately
    store = [bytes(buffer) for buffer in buffers]
    arrived: Payload = pickle.loads(message, buffers=[memoryview(store[0])])
    assert np.shares_memory(np.frombuffer(arrived.data, np.uint8), np.frombuffer(store[0], np.uint8))
    verify(arrived)
    assert bytes(arrived.data) == DATA
    assert pickle.loads(pickle.dumps(arrived, protocol=5)) == payload
    assert pickle.loads(pickle.dumps(arrived, protocol=4)) == payload
