from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from grpo_core.types import PolicyVersion
from services.weights.payload import Payload, WeightsError, pack, seal, unpack, verify


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {"a": torch.randn(4, 3, generator=generator), "b": torch.randn(5, generator=generator).to(torch.bfloat16)}


def test_tensors_come_back_bit_for_bit() -> None:
    back = unpack(pack(7, tensors()))
    assert back.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor)


def test_strides_ties_gradients_and_arrays_are_written_out() -> None:
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    payload = pack(0, {"w": weight, "tied": weight, "turned": weight.T, "part": weight[1:], "array": array.T})
    back = unpack(payload)
    assert torch.equal(back["w"], weight)
    assert torch.equal(back["tied"], weight)
    assert torch.equal(back["turned"], weight.T)
    assert torch.equal(back["part"], weight[1:])
    assert torch.equal(back["array"], torch.from_numpy(array.T.copy()))


def test_the_same_weights_have_the_same_checksum_in_any_order() -> None:
    forward, backward = tensors(), dict(reversed(tensors().items()))
    assert pack(1, forward).checksum == pack(2, backward).checksum
    assert pack(1, forward).policy_version == PolicyVersion(1, pack(1, forward).checksum)


def test_one_changed_bit_is_found() -> None:
    payload = pack(7, tensors())
    data = bytearray(payload.data)
    data[-1] ^= 1
    damaged = replace(payload, data=bytes(data))
    verify(payload)
    with pytest.raises(WeightsError, match="version 7 are damaged"):
        verify(damaged)
    with pytest.raises(WeightsError, match="version 7 are damaged"):
        unpack(damaged)


@pytest.mark.parametrize("data", [b"", b"\x80\x04.", pack(0, tensors()).data[:-1], b"\xff" * 64])
def test_what_is_no_safetensors_is_refused(data: bytes) -> None:
    with pytest.raises(WeightsError, match="no safetensors"):
        unpack(seal(3, data))


def test_no_tensors_is_an_error() -> None:
    with pytest.raises(WeightsError, match="no tensors"):
        pack(0, {})


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_types_safetensors_lacks_are_an_error() -> None:
    with pytest.raises(WeightsError, match="cannot be written"):
        pack(0, {"w": torch.zeros(2, dtype=torch.complex32)})


def test_an_object_store_shares_the_bytes_with_the_reader() -> None:
    payload = pack(7, tensors())
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(payload, protocol=5, buffer_callback=buffers.append)
    assert len(message) < 300  # the bytes themselves travel beside it
    store = [bytes(buffer) for buffer in buffers]
    arrived: Payload = pickle.loads(message, buffers=[memoryview(store[0])])
    assert np.shares_memory(np.frombuffer(arrived.data, np.uint8), np.frombuffer(store[0], np.uint8))
    verify(arrived)
    assert torch.equal(unpack(arrived)["a"], tensors()["a"])
    assert pickle.loads(pickle.dumps(arrived, protocol=5)) == payload
    assert pickle.loads(pickle.dumps(arrived, protocol=4)) == payload
