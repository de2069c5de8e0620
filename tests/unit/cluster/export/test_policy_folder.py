"""An exported policy: what plain libraries make of the folder, and what its card says."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from huggingface_hub import ModelCard
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from cluster.actors.initial_policy import make_policy
from cluster.cli.export import export
from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from cluster.evaluation.players.opening import open_policy
from cluster.export.decisions_folder import export_decisions
from cluster.export.model_card import CardFacts, model_card
from cluster.export.policy_folder import export_policy
from cluster.runs.folder import RunFolder
from grpo_core.checkpoints.store import save_checkpoint
from grpo_core.errors import CheckpointError
from grpo_core.learner import Learner
from grpo_core.models.lora import folder_payload, merged
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import ADAPTER, load_model, save_model
from opponents.players.chat_players import ChatPlayers
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.diplomacy.text.notation import render
from services.environments.diplomacy.world import Diplomacy
from services.inference.engine import GenerationRequest
from services.inference.torch_backend.engine import TorchEngine
from tests.chat_models import chat_model, chat_tokenizer
from tests.fuzz.run_folder import ADAPTERS, copy_to, template

LONGEST = 20


def no_bar(name: str, steps: int) -> Callable[[int], None]:
    return lambda done: None


def greedy(engine: TorchEngine, prompt: list[int]) -> list[int]:
    request = GenerationRequest(
        prompt_ids=tuple(prompt), constraint=None, seed=0, temperature=0.0, max_completion_length=LONGEST
    )
    return [int(token) for token in asyncio.run(engine.generate(request)).completion_ids]


def test_plain_transformers_load_the_folder_and_write_what_the_runs_engine_writes(tmp_path: Path) -> None:
    done = export_policy(template(), tmp_path / "policy", no_bar)
    assert (done.version, done.specialists) == (2, ())
    model = AutoModelForCausalLM.from_pretrained(done.folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(done.folder)
    own, own_tokenizer = load_model(template() / "checkpoints" / "2")
    ours = named_tensors(own)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in named_tensors(model).items())
    assert tokenizer.get_vocab() == own_tokenizer.get_vocab()
    engine = TorchEngine(own)
    for power in ("FRANCE", "TURKEY"):
        prompt = tokenizer(render(DiplomacyGame(1901).position, power), return_tensors="pt").input_ids
        written = model.generate(prompt, max_new_tokens=LONGEST, do_sample=False)[0, prompt.shape[1] :].tolist()
        assert written == greedy(engine, prompt[0].tolist())
    assert not [path.name for path in done.folder.rglob("*") if "optimizer" in path.name or "trainer" in path.name]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("prompt", ["chat", "notation"])
def test_a_chat_models_template_is_kept_and_its_run_says_how_it_is_asked(tmp_path: Path, prompt: str) -> None:
    config = load_config("smoke", [f"policy.prompt={prompt}", "policy.context_length=4096"])
    folder = RunFolder(tmp_path / "run")
    folder.open(config, resume=False)
    model, tokenizer = chat_model(), chat_tokenizer()
    learner = Learner(model, config.learner, config.grouping, seed=0)
    save_checkpoint(folder.path, learner, lambda path: save_model(model, tokenizer, path), {})
    export(folder.path)
    out, position = folder.path / "export" / "policy", DiplomacyGame(1901).position
    loaded = AutoTokenizer.from_pretrained(out)
    assert loaded.chat_template == tokenizer.chat_template
    card = (out / "README.md").read_text()
    assert "the run has recorded no evaluation" in card
    assert ("add_special_tokens=False" in card) == (prompt == "chat")
    asked = loaded((out / "example_prompt.txt").read_text(), add_special_tokens=False).input_ids
    own = TokenizedLanguage(Diplomacy.language, tokenizer, config.policy, config.inference)
    assert tuple(asked) == own.prompt(position, "FRANCE")
    # Not by its template alone, which a policy that reads notation has too.
    moved = shutil.copytree(out, tmp_path / "elsewhere")
    player = open_policy(str(moved), ChatPlayers({}))
    assert isinstance(player, LLMPolicy)
    assert player.read(position, "ITALY").text == own.prompts.text(position, "ITALY")
    DiplomacyGame(1901).save(folder.games / "begun.json")
    game = DiplomacyGame(1901)
    game.set_orders("FRANCE", ["A PAR - BUR"])
    game.process()
    game.save(folder.games / "game.json")
    done = export_decisions(folder.path, tmp_path / "data", no_bar)
    assert done.rows == {"games": 2, "decisions": 7}
    (first, *_) = pq.read_table(done.folder / "decisions.parquet").to_pylist()
    assert first["prompt"] == own.prompts.text(position, "AUSTRIA")


def test_a_policy_with_notes_says_so_and_its_example_ends_with_the_first(tmp_path: Path) -> None:
    noted = ["policy.notes=true", "policy.context_length=768", "inference.max_completion_length=448"]
    config = load_config("smoke", noted)
    folder = RunFolder(tmp_path / "run")
    folder.open(config, resume=False)
    model, tokenizer = make_policy(config.policy, 0, config.world.language)
    learner = Learner(model, config.learner, config.grouping, seed=0)
    save_checkpoint(folder.path, learner, lambda path: save_model(model, tokenizer, path), {})
    export(folder.path)
    out, position = folder.path / "export" / "policy", DiplomacyGame(1901).position
    assert "ends with the first note" in (out / "README.md").read_text()
    player = open_policy(str(out), ChatPlayers({}))
    assert isinstance(player, LLMPolicy)
    slots = player.tokens.slots(position, "FRANCE")
    assert (out / "example_prompt.txt").read_text() == f"{render(position, 'FRANCE')} {slots[0].note}"
    assert all(slot.note for slot in slots)


def test_specialists_are_a_base_with_adapters_or_one_country_merged(tmp_path: Path) -> None:
    run = template(ADAPTERS)
    whole = export_policy(run, tmp_path / "all", no_bar)
    assert whole.specialists == POWERS
    export(run, out=tmp_path / "france", country="france")
    ids = torch.tensor([[5, 9, 17, 33]])
    base = AutoModelForCausalLM.from_pretrained(whole.folder).eval()
    plain = base(ids).logits
    adapted = PeftModel.from_pretrained(base, str(whole.folder / "adapter" / "FRANCE")).eval()
    alone = AutoModelForCausalLM.from_pretrained(tmp_path / "france").eval()
    torch.testing.assert_close(alone(ids).logits, adapted(ids).logits, atol=1e-5, rtol=1e-5)
    assert not torch.equal(alone(ids).logits, plain)
    checkpoint = run / "checkpoints" / "2"
    wanted = merged(
        named_tensors(load_model(checkpoint, shared_base=True)[0]), folder_payload(checkpoint / ADAPTER / "FRANCE")
    )
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in named_tensors(alone).items())
    assert not (tmp_path / "france" / ADAPTER).exists()
    assert "adapter/<POWER>/" in (whole.folder / "README.md").read_text()
    assert "plays France, one of the seven" in (tmp_path / "france" / "README.md").read_text()
    # Entente itself plays both.
    position = DiplomacyGame(1901).position
    for folder in (whole.folder, tmp_path / "france"):
        player = open_policy(str(folder), ChatPlayers({}), temperature=0.0)
        orders = asyncio.run(player.act(position, "FRANCE", 1)).actions
        assert {order.split()[1] for order in orders} == {"MAR", "PAR", "BRE"}


def test_the_card_is_one_the_hub_reads_with_the_measured_table(tmp_path: Path) -> None:
    run = copy_to(tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    summary["evaluations"][1]["checkpoint"] = "checkpoints/2"
    (run / "summary.json").write_text(json.dumps(summary))
    done = export_policy(run, tmp_path / "policy", no_bar, license_name="mit")
    card = ModelCard.load(done.folder / "README.md")
    assert (card.data.library_name, card.data.pipeline_tag, card.data.license) == (
        "transformers", "text-generation", "mit",
    )  # fmt: skip
    row = summary["evaluations"][1]
    low, high = row["mean_centers_ci95"]
    assert f"| trained (2) | random | 14 | 1902 | {row['mean_centers']:.2f} [{low:.2f}, {high:.2f}] |" in card.text
    assert "None of these rows" not in card.text
    for made in ("| seed | 0 |", "| updates of this version | 2 |", "| commit | 0f |", "digest `0f`", "`country`"):
        assert made in card.text
    assert "| training games | 28 |" in card.text


def card_of(run: Path, version: int, out: Path) -> str:
    return (export_policy(run, out, no_bar, version=version).folder / "README.md").read_text()


def test_the_card_of_the_first_weights_claims_no_training(tmp_path: Path) -> None:
    text = card_of(template(), 0, tmp_path / "first")
    assert "None of these rows is of this version, 0" in text
    assert "no update by country-grouped GRPO has changed them." in text
    assert "untouched by the run's updates" in text
    assert "| training games, of the run (2 updates) | 28 |" in text
    for claim in ("It was trained", "; trained:", "| training games |", "| episodes learned from |"):
        assert claim not in text
    assert ModelCard(text).data.license is None
    assert ModelCard(text).data.base_model is None


def test_the_card_of_an_earlier_version_says_whose_totals_it_has(tmp_path: Path) -> None:
    text = card_of(template(), 1, tmp_path / "earlier")
    assert "It was trained to play full seven-power Diplomacy" in text
    assert "| updates of this version | 1 |" in text
    assert "| episodes learned from, of the run (2 updates) | 28 |" in text
    assert "| episodes learned from |" not in text


@pytest.mark.parametrize(
    ("path", "base"), [("Qwen/Qwen3-0.6B@main", "Qwen/Qwen3-0.6B"), ("/models/Qwen3", None), ("models", None)]
)
def test_the_card_names_a_base_model_of_the_hub(path: str, base: str | None) -> None:
    card = ModelCard(model_card(CardFacts(load_config("smoke", [f"policy.path={path}"]), {}, 1, None, (), None)))
    assert card.data.base_model == base


def test_the_card_of_one_country_has_its_own_figures_and_names_the_teacher() -> None:
    config = load_config("smoke", ["imitation.games=30", "policy.path=/home/me/models/base", "policy.use_peft=true"])
    cell = {"mean_centers": 5.5, "mean_centers_ci95": [5.0, 6.0], "games": 3, "sum_of_squares": 0.2}
    rates = {name: value for rate in ("top_rate", "win_rate", "survival_rate") for name, value in (
        (rate, 0.5), (f"{rate}_ci95", [0.4, 0.6]))}  # fmt: skip
    row = {
        "label": "trained", "checkpoint": "checkpoints/7", "against": "dumbbot", "until_year": 1905, **cell, **rates,
        "sum_of_squares_ci95": None, "by_country": {"ITALY": cell},
    }  # fmt: skip
    summary = {"evaluations": [row], "imitation": {"decisions": 4321}}
    text = model_card(CardFacts(config, summary, 7, "ITALY", (), None))
    assert "As Italy alone, this version had 5.50 [5.00, 6.00] centres against six dumbbot (3 games)." in text
    assert "30 games of `dumbbot`, 4,321 decisions" in text
    assert "`base`; trained: LoRA, rank" in text
    assert "/home/me" not in text


def test_what_is_published_says_nothing_of_the_machine_or_its_servers(tmp_path: Path) -> None:
    run = copy_to(tmp_path)
    config = load_config(
        run / "config.toml", ["redis.url=redis://u:hush@10.1.2.3:6379/0", "imitation.saved_games=/secret/place/games",
                              "game.saved_games=/secret/place/starts", "game.saved_share=0.5",
                              'grouping.keys=["country+scenario"]',
                              'opponents.remotes={gpt={base_url="http://10.1.2.3:8000/v1",model="m"}}'],
    )  # fmt: skip
    (run / "config.toml").write_text(dump_config(config))
    done = export_policy(run, tmp_path / "policy", no_bar)
    for name in ("README.md", "entente.json"):
        text = (done.folder / name).read_text()
        assert not [each for each in ("10.1.2.3", "hush", "/secret") if each in text]
    told = json.loads((done.folder / "entente.json").read_text())
    assert told["config"]["opponents"]["remotes"]["gpt"]["model"] == "m"
    assert told["config"]["imitation"]["saved_games"] == "games"
    assert told["config"]["game"]["saved_games"] == "starts"


def test_a_summary_of_another_form_is_refused_in_one_line(tmp_path: Path) -> None:
    run = copy_to(tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    del summary["evaluations"][0]["top_rate_ci95"]
    (run / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RunError, match=r"summary\.json is damaged .*; remove it to export without its figures"):
        export_policy(run, tmp_path / "policy", no_bar)
    (run / "summary.json").unlink()
    assert "no evaluation" in (export_policy(run, tmp_path / "policy", no_bar).folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"version": 7}, "has no checkpoint 7; it has 0, 1, 2|has no checkpoint 7; it has 0, 2"),
        ({"country": "FRANCE"}, "one policy plays all countries"),
        ({"license_name": "my licence"}, "no identifier of the Hub"),
        ({"decisions": True, "version": 2}, "leave them out with --decisions"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_line(tmp_path: Path, options: dict[str, object], hint: str) -> None:
    with pytest.raises(RunError, match=hint):
        export(template(), out=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_and_nothing_half_is_left(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(RunError, match="is there already; choose another folder"):
        export_policy(template(), tmp_path / "mine", no_bar)
    with pytest.raises(RunError, match="no run in"):
        export_policy(tmp_path, tmp_path / "out", no_bar)
    run = copy_to(tmp_path)
    weights = run / "checkpoints" / "2" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(CheckpointError, match="not what was written"):
        export_policy(run, tmp_path / "out", no_bar)
    weights.unlink()
    weights.symlink_to("/dev/zero")
    with pytest.raises(RunError, match="has no checkpoint 2; it has 0, 1"):
        export_policy(run, tmp_path / "out", no_bar, version=2)
    older = export_policy(run, tmp_path / "older", no_bar)
    assert (older.version, older.passed_over) == (1, (2,))
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RunError, match="no whole checkpoint yet"):
        export_policy(run, tmp_path / "out", no_bar)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "older", "run"]
