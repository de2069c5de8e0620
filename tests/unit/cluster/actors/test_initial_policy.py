"""The model that a run starts from is checked before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cluster.actors.initial_policy import check_policy, make_policy
from cluster.configs.loader import load_config
from cluster.runs.folder import EXPORTED
from grpo_core.errors import CheckpointError
from grpo_core.models.pretrained import make_small_model, save_model
from grpo_core.settings import PolicySettings
from opponents.players.llm_policy import TokenizedLanguage
from services.inference.word_tokenizer import make_word_tokenizer
from tests.chat_models import save_chat_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat_model(tmp_path_factory.mktemp("chat"))


def check(folder: Path, *overrides: str) -> None:
    config = load_config("smoke", [f"policy.path={folder}", "policy.context_length=4096", *overrides])
    check_policy(config.policy, config.inference, config.world.language)


def test_a_chat_model_is_taken_with_room_for_the_longest_sheet(folder: Path) -> None:
    check(folder, "policy.prompt=chat", "inference.max_completion_length=400")
    with pytest.raises(CheckpointError, match=r"17 orders may take \d+ of its tokens.*raise it"):
        check(folder, "policy.prompt=chat", "inference.max_completion_length=64")
    check(folder, "policy.prompt=chat", "inference.max_completion_length=64", "inference.decoding=free")


def test_a_context_beyond_the_models_positions_is_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds 4096 tokens, and policy.context_length is 8192; lower it"):
        check(folder, "policy.prompt=chat", "inference.max_completion_length=400", "policy.context_length=8192")


def test_a_model_without_a_template_is_refused_for_chat_prompts_alone(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        if file.name != "chat_template.jinja":
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(CheckpointError, match="has no chat template"):
        check(tmp_path, "policy.prompt=chat", "inference.max_completion_length=400")
    check(tmp_path, "inference.max_completion_length=400")


def test_a_small_policy_without_press_learns_to_write_letters(tmp_path: Path) -> None:
    """Its words of letters are new, and it plays as before where no letters are due."""
    before = load_config("smoke", [])
    model, tokenizer = make_policy(before.policy, 0, before.world.language)
    save_model(model, tokenizer, tmp_path / "model")
    press = load_config("smoke", [f"policy.path={tmp_path / 'model'}", "game.press_rounds=1"])
    check_policy(press.policy, press.inference, press.world.language)
    grown, more = make_policy(press.policy, 0, press.world.language)
    language = press.world.language
    tokens = TokenizedLanguage(language, more, press.policy, press.inference)
    assert tokens.language is language
    view = press.world.new_game("", "FRANCE", 0).view("FRANCE")
    slots = tokens.slots(view, "FRANCE")
    assert slots
    assert all(more.unk_token_id not in more.encode(line) for slot in slots for line in slot.alternatives)
    assert grown.config.vocab_size == len(more) > len(tokenizer)
    prompt = torch.tensor([TokenizedLanguage(before.world.language, tokenizer).prompt(
        before.world.new_game("", "FRANCE", 0).view("FRANCE"), "FRANCE")])  # fmt: skip
    with torch.no_grad():
        assert torch.equal(grown(prompt).logits[..., : len(tokenizer)], model(prompt).logits)


def test_a_policy_of_another_world_is_refused(tmp_path: Path) -> None:
    other = make_word_tokenizer(["p", "q"], r"[pq]")
    model = make_small_model(PolicySettings(), len(other), eos_id=2, bos_id=1, pad_id=0, seed=0)
    save_model(model, other, tmp_path / "model")
    with pytest.raises(CheckpointError, match="has learned another world's words"):
        check(tmp_path / "model")


def test_a_missing_model_is_one_line_that_says_how_to_fetch_it() -> None:
    with pytest.raises(CheckpointError, match=r"there is no folder models/none.*hf download models/none") as error:
        check(Path("models/none"))
    assert "\n" not in str(error.value)


def test_a_policy_is_trained_on_with_notes_or_without_as_it_has_learned(tmp_path: Path) -> None:
    noted = ["policy.notes=true", "policy.context_length=768", "inference.max_completion_length=448"]
    config = load_config("smoke", noted)
    save_model(*make_policy(config.policy, 0, config.world.language), tmp_path / "model")
    check(tmp_path / "model", *noted)
    document = {"config": {"policy": config.policy.model_dump(mode="json", exclude_none=True)}}
    (tmp_path / "model" / EXPORTED).write_text(json.dumps(document))
    check(tmp_path / "model", *noted)
    with pytest.raises(CheckpointError, match=r"has learned with policy.notes = true, and this run has false; set it"):
        check(tmp_path / "model")
    plain = load_config("smoke")
    save_model(*make_policy(plain.policy, 0, plain.world.language), tmp_path / "plain")
    with pytest.raises(CheckpointError, match="the tokenizer lacks words of notes"):
        check(tmp_path / "plain", *noted)
