"""A chat model under its own template: it thinks freely, orders legally, and both engines agree with the learner."""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from cluster.actors.audit_batch import load_last_batch
from cluster.configs.loader import load_config
from cluster.runs.folder import RunFolder, audits, episodes_used
from grpo_core.batching.microbatches import micro_batches, training_turns
from grpo_core.forward.logprobs import token_logprobs
from grpo_core.models.lora import adapter_payload, add_adapters
from grpo_core.types import Episode, Turn
from opponents.players.llm_policy import LLMPolicy, TokenizedLanguage
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import Position
from services.environments.diplomacy.rules.orders import check
from services.environments.diplomacy.world import Diplomacy
from services.environments.playing import Decision
from services.inference.engine import LEARNER, Engine
from services.inference.torch_backend.engine import TorchEngine
from services.settings import InferenceSettings
from tests.chat_models import chat_model, chat_tokenizer, save_chat_model
from tests.system.support.training_process import TrainingProcess
from tests.system.support.vllm_models import perturbed, vllm_engine

pytest.importorskip("vllm", reason="vLLM is not installed: `make vllm` brings its CPU build")
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

COUNT = 300
THINKING = 12
CONTEXT = 4096
CHAT = (
    "policy.prompt=chat",
    f"policy.context_length={CONTEXT}",
    f"inference.thinking_tokens={THINKING}",
    "inference.max_completion_length=400",
)
LORA = ("policy.use_peft=true", "policy.lora_r=8")
CONFIG = load_config("smoke", CHAT)
TOKENIZER = chat_tokenizer()
END_THINK = TOKENIZER.convert_tokens_to_ids("</think>")


@dataclass(frozen=True)
class Case:
    """One decision to make."""

    position: Position
    power: str
    seed: int


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Decisions with a choice, of every kind of phase."""
    found: list[Case] = []
    for seed in range(20):
        game, bot = DiplomacyGame(1903), make_bot("greedy")
        while not game.is_done:
            position = game.position
            for power in position.to_move:
                if len(position.units[power]) > 1 and (position.kind != "M" or (len(found) + seed) % 3 == 0):
                    found.append(Case(position, power, len(found)))
                game.set_orders(power, bot.actions(position, power, seed))
            game.process()
        if len(found) >= COUNT:
            break
    assert {case.position.kind for case in found[:COUNT]} == {"M", "R", "A"}
    return found[:COUNT]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return perturbed(chat_model(CONTEXT), 0)


@pytest.fixture(scope="module")
def on_vllm(
    model: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, asyncio.Runner]]:
    settings = InferenceSettings(kv_cache_mib=256)
    folder = tmp_path_factory.mktemp("chat")
    with vllm_engine(model, folder, settings, max_lora_rank=8, tokenizer=TOKENIZER) as started:
        yield started


def decide(engine: Engine, runner: asyncio.Runner, cases: Sequence[Case], temperature: float) -> list[Decision]:
    tokens = TokenizedLanguage(Diplomacy.language, TOKENIZER, CONFIG.policy, CONFIG.inference)
    policy = LLMPolicy(engine, tokens, temperature=temperature, max_completion_length=400)

    async def act() -> list[Decision]:
        return list(await asyncio.gather(*(policy.act(case.position, case.power, case.seed) for case in cases)))

    return runner.run(act())


def learners_gap(model: torch.nn.Module, turns: Sequence[Turn]) -> float:
    """The largest difference of the learner's log-probabilities to those of the engine that sampled."""
    episode = Episode("e/0", "diplomacy", "FRANCE", "e", 1, {}, tuple(turns), 0.0, {}, {}, 0)
    trained = training_turns([episode], 0)
    gaps = []
    with torch.no_grad():
        for micro in micro_batches(trained, np.zeros(len(trained), np.float32), np.ones(len(trained)), 16_384):
            chosen, _ = token_logprobs(model, micro)
            gaps.append(float((chosen - micro.behaviour_N).abs().max()))
    return max(gaps)


def check_decisions(cases: Sequence[Case], decisions: Sequence[Decision]) -> None:
    """All orders are legal and complete; thoughts are as free and as short as they may be."""
    thought_tokens: set[int] = set()
    ended = 0
    for case, decision in zip(cases, decisions, strict=True):
        assert not check(decision.actions, case.position, case.power).defects, (case, decision.actions)
        turn = decision.turn
        assert turn is not None
        if not turn.trained_mask.any():
            continue
        free = np.diff(turn.admissible_offsets) == 0
        own = turn.completion_ids[turn.trained_mask][free].tolist()
        assert 1 <= len(own) <= THINKING
        assert free[: len(own)].all(), "the thought is before the orders"
        thought_tokens.update(own)
        ended += own[-1] == END_THINK
        text = TOKENIZER.decode(turn.completion_ids)
        assert text.startswith("<think>\n")
        assert text.count("</think>") == 1
        assert text.endswith("\n<|im_end|>")
    assert len(thought_tokens) > 100, "a thought may be anything"


@pytest.mark.parametrize("adapted", [False, True], ids=["full", "LoRA"])
def test_three_hundred_decisions_are_legal_and_engines_agree_with_the_learner(
    cases: list[Case], model: torch.nn.Module, on_vllm: tuple[Engine, asyncio.Runner], adapted: bool
) -> None:
    engine, runner = on_vllm
    base = copy.deepcopy(model)
    ours = TorchEngine(copy.deepcopy(base))
    learner: torch.nn.Module = base
    if adapted:
        learner = add_adapters(base, CONFIG.policy.model_copy(update={"use_peft": True, "lora_r": 8}), seed=1)
        with torch.no_grad():
            for name, weight in learner.named_parameters():
                if "lora_" in name:
                    weight.normal_(std=0.05)
        for each in (ours, engine):
            runner.run(each.update_weights(adapter_payload(learner), 1, policy=LEARNER))
    for each in (ours, engine):
        decisions = decide(each, runner, cases, 1.0)
        check_decisions(cases, decisions)
        turns = [decision.turn for decision in decisions if decision.turn and decision.turn.trained_mask.any()]
        assert len(turns) > 0.9 * COUNT
        assert learners_gap(learner, turns) < 1e-4
    greedy = [decide(each, runner, cases[:40], 0.0) for each in (ours, engine)]
    for mine, theirs in zip(*greedy, strict=True):
        assert mine.turn is not None
        assert theirs.turn is not None
        assert mine.turn.completion_ids.tolist() == theirs.turn.completion_ids.tolist()
        assert np.abs(mine.turn.logprobs - theirs.turn.logprobs).max() < 1e-4
    runner.run(ours.close())


@pytest.mark.parametrize(
    ("engine", "weights"), [("torch", LORA), ("vllm", ())], ids=["torch with LoRA", "vLLM with all weights"]
)
def test_a_chat_model_trains_with_thoughts_and_orders(engine: str, weights: tuple[str, ...], tmp_path: Path) -> None:
    folder = save_chat_model(tmp_path / "model", CONTEXT)
    run = tmp_path / "run"
    settings = (
        *CHAT,
        *weights,
        f"policy.path={folder}",
        f"inference.engine={engine}",
        "inference.kv_cache_mib=256",
        "game.until_year=1901",
        "learner.updates=2",
        "learner.tokens_per_microbatch=8192",
        "imitation.games=4",
        "imitation.until_year=1901",
        "imitation.epochs=1",
        "evaluation.against=[]",
        "evaluation.final_against=[]",
        "metrics.display=false",
    )
    arguments = [word for setting in settings for word in ("--set", setting)]
    with TrainingProcess(run, *arguments) as training:
        assert training.finish() == 0, training.output()
        assert training.survivors() == []
    assert set(episodes_used(run).values()) == {1}
    assert audits(run)[1]["metrics"]["fresh_logprob_gap"] < 1e-4
    batch = load_last_batch(RunFolder(run))
    assert batch is not None
    turns = [turn for episode in batch.episodes for turn in episode.turns]
    assert turns
    assert all(episode.outcome["defective_orders"] == 0 for episode in batch.episodes)
    for turn in turns:
        assert 1 <= (np.diff(turn.admissible_offsets) == 0).sum() <= THINKING
    check_shown_prompts(run, tmp_path / "game.json")


def check_shown_prompts(run: Path, game: Path) -> None:
    """``entente play --show-prompts`` prints what the policy read, and the tokens of each part."""
    words = ["play", "--seat", f"FRANCE={run}", "--until", "1901", "--out", str(game), "--show-prompts"]
    done = subprocess.run(
        [sys.executable, "-m", "cluster.cli", *words], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "<|im_start|>system\nThis is Diplomacy" in done.stdout
    assert "as FRANCE, S1901M" in done.stdout
    for part in ("template", "rules", "country", "position", "legal orders", "whole prompt"):
        assert part in done.stdout
