import hashlib
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from grpo_core.checkpoints.folders import checkpoint_versions, latest_checkpoint, prune_checkpoints, weights_checksum
from grpo_core.checkpoints.store import load_checkpoint, save_checkpoint
from grpo_core.errors import CheckpointError, StorageError
from grpo_core.learner import Learner
from grpo_core.settings import GroupingSettings, LearnerSettings
from grpo_core.types import Batch
from tests.unit.grpo_core.support.cases import ragged_episodes, tiny_model


def learner_at(version: int) -> Learner:
    learner = Learner(tiny_model(), LearnerSettings(), GroupingSettings(), seed=0)
    for number in range(version):
        learner.step(Batch(ragged_episodes(number), number))
    return learner


def save(run_dir, learner, extra=None):
    return save_checkpoint(run_dir, learner, learner.model.save_pretrained, extra or {})


def at_version(learner: Learner, version: int) -> Learner:
    learner.version = version
    return learner


def test_a_resumed_learner_takes_the_same_step_bit_for_bit(tmp_path):
    learner = learner_at(2)
    folder = save(tmp_path, learner, {"receipts": [["FRANCE", "1-0"]]})
    assert folder == tmp_path / "checkpoints" / "2" == latest_checkpoint(tmp_path)
    checkpoint = load_checkpoint(folder)
    assert checkpoint.version == 2
    assert checkpoint.extra == {"receipts": [["FRANCE", "1-0"]]}
    model = AutoModelForCausalLM.from_pretrained(folder)
    twin = Learner(model, LearnerSettings(), GroupingSettings(), seed=123)
    twin.load_state(checkpoint.state)
    results = [each.step(Batch(ragged_episodes(2), 2)).audit["steps"] for each in (learner, twin)]
    assert results[0] == results[1]
    for (name, one), (_, other) in zip(learner.model.named_parameters(), model.named_parameters(), strict=True):
        assert torch.equal(one, other), name


def test_an_untrained_policy_can_be_saved_and_loaded(tmp_path):
    checkpoint = load_checkpoint(save(tmp_path, learner_at(0)))
    twin = learner_at(0)
    twin.load_state(checkpoint.state)
    assert checkpoint.version == twin.version == 0


def test_checkpoints_hold_only_safetensors_and_json(tmp_path):
    folder = save(tmp_path, learner_at(1))
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
    with pytest.raises(CheckpointError, match=r"only safetensors"):
        save_checkpoint(tmp_path, learner_at(0), lambda target: (target / "weights.pt").touch(), {})
    assert checkpoint_versions(tmp_path) == (1,)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "trainer_state.json", "config.json"])
def test_altered_and_missing_checkpoint_files_are_named(tmp_path, name):
    folder = save(tmp_path, learner_at(1))
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"lacks {name}"):
        load_checkpoint(folder)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"schema": 1, "version": 1, "files": {}}'])
def test_a_folder_without_a_valid_manifest_is_no_checkpoint(tmp_path, content):
    folder = save(tmp_path, learner_at(0))
    (folder / "manifest.json").unlink()
    if content is not None:
        (folder / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        load_checkpoint(folder)
    assert latest_checkpoint(tmp_path) is None


def test_the_latest_checkpoint_is_the_newest_complete_one(tmp_path):
    learner = learner_at(0)
    assert latest_checkpoint(tmp_path) is None
    for version in (0, 2, 10):
        save(tmp_path, at_version(learner, version))
    parent = tmp_path / "checkpoints"
    (parent / ".12.partial-1").mkdir()
    (parent / "11").mkdir()
    (parent / "notes.txt").write_text("not a checkpoint")
    assert latest_checkpoint(tmp_path) == parent / "10"
    (parent / "10" / "model.safetensors").write_bytes(b"cut off")
    assert latest_checkpoint(tmp_path) == parent / "2"
    save(tmp_path, at_version(learner, 10))  # the resumed run reaches version 10 again
    assert load_checkpoint(parent / "10").version == 10


def test_a_failed_save_leaves_no_files(tmp_path):
    def fails(folder):
        (folder / "config.json").write_text("{}")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match=r"cannot write .*/checkpoints/0: the disk is full; free space there"):
        save_checkpoint(tmp_path, learner_at(0), fails, {})
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_pruning_keeps_the_first_and_the_newest_checkpoints(tmp_path):
    learner = learner_at(0)
    for version in (0, 1, 2, 3, 4):
        save(tmp_path, at_version(learner, version))
    (tmp_path / "checkpoints" / ".9.partial-1").mkdir()
    assert prune_checkpoints(tmp_path, keep=2) == (1, 2)
    assert checkpoint_versions(tmp_path) == (0, 3, 4)
    assert prune_checkpoints(tmp_path, keep=2) == ()
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["0", "3", "4"]


def test_extra_checkpoint_data_must_be_plain_json(tmp_path):
    with pytest.raises((TypeError, ValueError)):
        save(tmp_path, learner_at(0), {"bad": float("nan")})
    assert checkpoint_versions(tmp_path) == ()


def test_the_manifest_lists_every_file(tmp_path):
    folder = save(tmp_path, learner_at(1))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["files"]) == {path.name for path in folder.iterdir()} - {"manifest.json"}


def test_the_weights_checksum_is_that_of_the_model_and_not_of_the_optimizer(tmp_path):
    folder = save(tmp_path, learner_at(1))
    model = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert weights_checksum(folder) == model
    (folder / "manifest.json").unlink()
    assert weights_checksum(folder) == model, "as for a folder of another program"
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_model.safetensors").write_bytes(b"0")
    both = weights_checksum(folder)
    (folder / "adapter" / "adapter_model.safetensors").write_bytes(b"1")
    assert len({model, both, weights_checksum(folder)}) == 3


def test_a_folder_without_weights_has_no_checksum(tmp_path):
    with pytest.raises(CheckpointError, match="has no weights"):
        weights_checksum(tmp_path)
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(CheckpointError, match="a folder"):
        weights_checksum(tmp_path)
