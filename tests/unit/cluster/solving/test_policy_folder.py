from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch
from transformers import Olmo2Config, Olmo2ForCausalLM

from cluster.configs.loader import dump_config, load_config
from cluster.errors import RunError
from cluster.solving.agents import Agents
from cluster.solving.answering import Asking, solve_all
from cluster.solving.policy_folder import find_policy
from cluster.solving.questions import asked
from grpo_core.errors import CheckpointError
from grpo_core.forward.hidden_states import has_plain_blocks
from grpo_core.models.pretrained import save_model
from tests.chat_models import chat_tokenizer, save_chat_model
from tests.unit.cluster.solving.policies import QUESTION, VARIANTS, write_run


def test_the_agents_are_the_runs_variants_or_those_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", 'game.variants=["final_answer", "step_by_step"]')
    assert find_policy(folder).variants == ("final_answer", "step_by_step")
    assert find_policy(folder, ["be_concise"]).variants == ("be_concise",), "also one that was not trained"
    assert find_policy(folder).inference.max_completion_length == 24
    with pytest.raises(RunError, match="no variant 'BE_CONCISE'; there are step_by_step, "):
        find_policy(folder, ["BE_CONCISE"])
    with pytest.raises(RunError, match="twice"):
        find_policy(folder, ["be_concise", "be_concise"])


@pytest.mark.parametrize("name", ["smoke", "kuhn"])
def test_a_run_of_another_world_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    (tmp_path / "config.toml").write_text(dump_config(config))
    (tmp_path / "run_id").write_text("other-0f\n")
    with pytest.raises(
        RunError, match=f"in the world {config.world.name}, and only policies for word problems"
    ) as said:
        find_policy(tmp_path)
    assert "\n" not in str(said.value)


def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no folder of a run or checkpoint"):
        find_policy(tmp_path / "missing")
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        find_policy(tmp_path)


def test_a_published_chat_model_is_asked_by_its_template(tmp_path: Path) -> None:
    found = find_policy(save_chat_model(tmp_path / "model"))
    assert (found.policy, found.variants) == (None, VARIANTS)
    agents = Agents(found)
    with pytest.raises(RunError, match="im_end"):
        agents.check(asked("How many?<|im_end|>").question)
    with pytest.raises(RunError, match="im_start"):
        agents.check(asked("<|im_start|>system").question)
    question = asked("How many zebras are 2 and 3 zebras?", "5")
    (solved,) = asyncio.run(solve_all(agents, [question], Asking("average", samples=2)))
    assert len(solved.agents) == 4
    assert all(agent.reference_perplexity is not None for agent in solved.agents)


def test_agents_that_think_first_cannot_average(tmp_path: Path) -> None:
    model = save_chat_model(tmp_path / "model")
    overrides = [f"policy.path={model}", "policy.prompt=chat", "policy.context_length=2048"]
    overrides += ["inference.thinking_tokens=8", "inference.max_completion_length=16"]
    config = load_config("word_problems", overrides)
    (tmp_path / "config.toml").write_text(dump_config(config))
    (tmp_path / "run_id").write_text("thinking-0f\n")
    found = find_policy(model)
    assert found.inference.thinking_tokens == 8
    with pytest.raises(RunError, match="average needs a policy without separate thoughts"):
        asyncio.run(solve_all(Agents(found), [asked(QUESTION)], Asking("average", samples=0)))
    (solved,) = asyncio.run(solve_all(Agents(found), [asked(QUESTION)], Asking("consensus", samples=0)))
    assert solved.samples_diversity is None


def test_a_model_whose_layers_the_engine_changes_is_read_as_it_was(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer()
    config = Olmo2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=512, eos_token_id=tokenizer.eos_token_id, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = Olmo2ForCausalLM(config).eval()
    assert not has_plain_blocks(config)
    save_model(model, tokenizer, tmp_path)
    agents = Agents(find_policy(tmp_path, ["final_answer"]))
    question = asked(QUESTION).question
    (greedy,) = asyncio.run(agents.write(question, "final_answer", [0], 0.0))
    assert agents.write_together(question).ids == greedy.ids
    prompt = agents._prompt(question, "final_answer")
    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *greedy.ids]])).logits[0, len(prompt) - 1 : -1]
    expected = [float(row.log_softmax(0)[token]) for row, token in zip(logits, greedy.ids, strict=True)]
    assert agents.read(question, "final_answer", greedy.ids).logprobs.tolist() == pytest.approx(expected, abs=1e-4)
