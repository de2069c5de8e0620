from pathlib import Path

import numpy as np
import pytest

from cluster.actors.audit_batch import last_batch_path, load_last_batch, save_last_batch
from cluster.errors import RunError
from cluster.runs.folder import RunFolder
from grpo_core.types import Batch
from services.replay.codec import encode
from tests.unit.grpo_core.support.cases import ragged_episodes


def test_newest_batch_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert load_last_batch(folder) is None
    save_last_batch(folder, Batch(ragged_episodes(1), 6))
    batch = Batch(ragged_episodes(2), 7)
    path = save_last_batch(folder, batch)
    assert [each.name for each in path.parent.iterdir()] == ["last_batch.bin"]
    back = load_last_batch(folder)
    assert back is not None
    assert back.learner_version == 7
    assert [encode(episode) for episode in back.episodes] == [encode(episode) for episode in batch.episodes]
    for ours, theirs in zip(back.episodes, batch.episodes, strict=True):
        for one, other in zip(ours.turns, theirs.turns, strict=True):
            np.testing.assert_array_equal(one.completion_ids, other.completion_ids)
            np.testing.assert_array_equal(one.logprobs, other.logprobs)


@pytest.mark.parametrize(
    ("damage", "hint"),
    [
        (lambda data: b"junk", "no batch of episodes"),
        (lambda data: data[:4] + b"\x09" + data[5:], "schema 9"),
        (lambda data: data[:-3], "damaged"),
        (lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], "damaged"),
        (lambda data: data[:5] + b"\x92\x01\x91\xc4\x01x", "damaged"),  # an episode that is none
    ],
)
def test_damaged_batch_is_refused_in_one_line(tmp_path: Path, damage, hint: str) -> None:  # type: ignore[no-untyped-def]
    folder = RunFolder(tmp_path)
    save_last_batch(folder, Batch(ragged_episodes(1)[:2], 3))
    path = last_batch_path(folder)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError, match=hint) as caught:
        load_last_batch(folder)
    assert "\n" not in str(caught.value)
