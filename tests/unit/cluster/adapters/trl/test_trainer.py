"""TRL's trainer on our episodes: its loss and gradient are those of ``grpo_core``, and it trains."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

from cluster.actors.initial_policy import make_policy
from cluster.adapters.trl.games import Games
from cluster.adapters.trl.trainer import EpisodeTrainer, grpo_config
from cluster.bench.learner.batches import GROUPING, ragged_episodes
from cluster.bench.models import small_model
from cluster.configs.loader import load_config
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.batching.microbatches import micro_batches, training_turns
from grpo_core.batching.token_weights import turn_token_weights
from grpo_core.forward.logprobs import token_logprobs
from grpo_core.losses.policy_loss import LossTokens, token_losses
from grpo_core.settings import LearnerSettings

EXACT = {"atol": 1e-6, "rtol": 1e-5}
CASES = [
    ("grpo", "token", None), ("grpo", "sequence", None), ("bnpo", "token", 1.4), ("dr_grpo", "token", None),
    ("dapo", "token", None), ("cispo", "token", None),
]  # fmt: skip


@pytest.fixture(scope="module")
def kuhn():
    config = load_config("kuhn", ["rollout.num_generations=4", "inference.temperature=0.8"])
    model, tokenizer = make_policy(config.policy, 0, config.world.language)
    return config, model, tokenizer, Games(config, tokenizer, blocks=3)(model, 0)


def moved(model):
    """The model after a step: ratios are no longer one, and some are clipped."""
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value += 0.05 * torch.randn(value.shape, generator=rng)
    return model


def played(kind, kuhn):
    config, model, tokenizer, episodes = kuhn
    if kind == "masked":
        return type(model)(model.config), tokenizer, episodes, config.grouping
    drawn = ragged_episodes(6, masked=kind == "mixed", prompt=(4, 9), completion=(3, 12))
    if kind == "mixed":
        drawn = drawn[:3] + ragged_episodes(6, masked=False, prompt=(4, 9), completion=(3, 12))[3:]
    cut = tuple(replace(each, turns=each.turns[: 1 + at % 3]) for at, each in enumerate(drawn))
    return small_model(max(512, max_id(cut) + 1)), tokenizer, cut, GROUPING


def max_id(episodes):
    return max(int(turn.completion_ids.max()) for each in episodes for turn in each.turns)


def learner_settings(loss_type, level, delta):
    return LearnerSettings(
        loss_type=loss_type,
        importance_sampling_level=level,
        delta=delta,
        epsilon_high=1.5 if loss_type == "cispo" else 0.28,
        max_completion_length=24 if loss_type == "dr_grpo" else None,
        minibatches=1,
    )


def ours(model, episodes, learner, grouping):
    """The loss of one update by our functions."""
    turns = training_turns(episodes, 0)
    advantages = compute_advantages(episodes, learner, grouping, {}).turn_advantages[[turn.turn for turn in turns]]
    counts = [len(turn.position_S) for turn in turns]
    weights = turn_token_weights(
        learner.named_normalizer,
        counts,
        [turn.episode for turn in turns],
        max_completion_length=learner.max_completion_length,
        batch_tokens_per_step=float(sum(counts)),
    )
    loss = torch.zeros(())
    for micro in micro_batches(turns, advantages, weights, budget=400):
        logprobs, entropy = token_logprobs(model, micro)
        tokens = LossTokens(
            logprobs_N=logprobs,
            entropy_N=entropy,
            behaviour_N=micro.behaviour_N,
            advantages_N=micro.advantage_N,
            row_N=micro.row_N,
            rows=len(micro.turns),
        )
        loss = loss + (micro.weight_N * token_losses(tokens, learner).loss_N).sum()
    return loss


def trl_trainer(model, tokenizer, play, learner, grouping, folder, **options):
    settings = grpo_config(learner, folder, use_cpu=True, max_steps=1, disable_tqdm=True, save_strategy="no", **options)
    return EpisodeTrainer(model, tokenizer, play, settings, learner, grouping)


def gradient(model):
    return torch.cat([value.grad.flatten() for value in model.parameters()])


@pytest.mark.parametrize("kind", ["masked", "free", "mixed"])
@pytest.mark.parametrize(("loss_type", "level", "delta"), CASES)
def test_trls_loss_and_gradient_on_our_episodes_equal_ours(kind, loss_type, level, delta, kuhn, tmp_path):
    learner = learner_settings(loss_type, level, delta)
    model, tokenizer, episodes, grouping = played(kind, kuhn)
    moved(model)
    expected = ours(model, episodes, learner, grouping)
    expected.backward()
    due = gradient(model)
    model.zero_grad()
    for parts in (1, 3):  # an update is the same, however many micro-batches it takes
        trainer = trl_trainer(
            model, tokenizer, lambda *_: episodes, learner, grouping, tmp_path, gradient_accumulation_steps=parts
        )
        trainer.current_gradient_accumulation_steps = parts
        model.train()
        total = torch.zeros(())
        for _ in range(parts):
            loss = trainer.compute_loss(model, trainer._prepare_inputs(None))
            loss.backward()
            total += loss.detach()
            trainer._step += 1
        assert expected.detach().abs() > 1e-4
        torch.testing.assert_close(total, expected.detach(), **EXACT)
        torch.testing.assert_close(gradient(model), due, atol=1e-6, rtol=1e-4)
        model.zero_grad()


def test_fresh_episodes_have_the_log_probabilities_with_which_they_were_sampled(kuhn, tmp_path):
    config, model, tokenizer, episodes = kuhn
    learner = LearnerSettings(minibatches=1)
    trainer = trl_trainer(model, tokenizer, lambda *_: episodes, learner, config.grouping, tmp_path)
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    rows = trainer._prepare_inputs(None)
    trainer.compute_loss(model, rows)
    ids = torch.cat([rows["prompt_ids"], rows["completion_ids"]], 1)
    mask = torch.cat([rows["prompt_mask"], rows["completion_mask"]], 1)
    found, _, _ = trainer._get_per_token_logps_and_entropies(model, ids, mask, rows["completion_ids"].shape[1])
    at = rows["tool_mask"].bool()
    torch.testing.assert_close(found[at], rows["old_per_token_logps"][at], atol=1e-4, rtol=0)


def test_it_trains_and_plays_with_the_weights_of_the_step(kuhn, tmp_path):
    config, _, tokenizer, _ = kuhn
    model, _ = make_policy(config.policy, 0, config.world.language)
    games, seen = Games(config, tokenizer, blocks=3), []

    def play(current, update):
        seen.append((update, float(next(current.parameters()).detach().sum())))
        return games(current, update)

    learner = LearnerSettings(minibatches=1, learning_rate=3e-3, lr_warmup_updates=0)
    trainer = trl_trainer(model, tokenizer, play, learner, config.grouping, tmp_path, gradient_accumulation_steps=2)
    trainer.args.max_steps = 3
    trainer.train()
    assert [update for update, _ in seen] == [0, 1, 2]
    assert len({total for _, total in seen}) == 3
    assert all(np.isfinite(row["loss"]) for row in trainer.state.log_history if "loss" in row)


def test_an_update_of_two_epochs_is_played_once_and_counted_once(kuhn, tmp_path):
    config, _, tokenizer, _ = kuhn
    model, _ = make_policy(config.policy, 0, config.world.language)
    games, updates = Games(config, tokenizer, blocks=3), []

    def play(current, update):
        updates.append(update)
        return games(current, update)

    learner = LearnerSettings(epochs=2, learning_rate=3e-3, lr_warmup_updates=2)
    trainer = trl_trainer(model, tokenizer, play, learner, config.grouping, tmp_path, logging_steps=1)
    trainer.args.max_steps = 6
    trainer.train()
    assert updates == [0, 1, 2]
    rates = [row["learning_rate"] for row in trainer.state.log_history if "learning_rate" in row]
    assert rates == pytest.approx([0.0, 0.25 * 3e-3, 0.5 * 3e-3, 0.75 * 3e-3, 3e-3, 3e-3])


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_falling_learning_rate_is_passed_on(name, tmp_path):
    args = grpo_config(LearnerSettings(lr_scheduler_type=name, epochs=3), tmp_path, use_cpu=True)
    assert args.lr_scheduler_type == name
    assert args.get_warmup_steps(1000) == 15


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"beta": 0.1}, "learner.beta"),
        ({"loss_type": "rloo"}, "learner.loss_type"),
        ({"normalizer": "episode"}, "learner.normalizer"),
        ({"entropy_coef": 0.1}, "learner.entropy_coef"),
        ({"gradient_checkpointing": True, "activation_offloading": True}, "learner.activation_offloading"),
        ({"top_up_episodes": 8}, "learner.top_up_episodes"),
    ],
)
def test_settings_that_trl_does_not_have_are_refused_by_name(change, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        grpo_config(LearnerSettings(**change), tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"beta": 0.1},
        {"entropy_coef": 0.1},
        {"use_adaptive_entropy": True},
        {"off_policy_mask_threshold": 0.5},
        {"top_entropy_quantile": 0.5},
    ],
)
def test_options_that_change_the_loss_are_refused_by_the_trainer(change, kuhn, tmp_path):
    config, model, tokenizer, _ = kuhn
    with pytest.raises(ValueError, match=next(iter(change))):
        trl_trainer(model, tokenizer, None, LearnerSettings(), config.grouping, tmp_path, **change)


@pytest.mark.parametrize("name", ["world_size", "n_gpu"])
def test_more_than_one_process_or_gpu_is_refused(name, kuhn, tmp_path, monkeypatch):
    config, model, tokenizer, _ = kuhn
    learner = LearnerSettings()
    args = grpo_config(learner, tmp_path, use_cpu=True)
    monkeypatch.setattr(type(args), name, property(lambda _: 2))
    with pytest.raises(ValueError, match=rf"{name}( is)? 2.*start one process"):
        EpisodeTrainer(model, tokenizer, None, args, learner, config.grouping)


def test_lora_adapters_are_refused(kuhn, tmp_path):
    config, _, tokenizer, _ = kuhn
    lora, learner = LoraConfig(target_modules="all-linear"), LearnerSettings()
    args = grpo_config(learner, tmp_path, use_cpu=True)
    model, _ = make_policy(config.policy, 0, config.world.language)
    with pytest.raises(ValueError, match="peft_config"):
        EpisodeTrainer(model, tokenizer, None, args, learner, config.grouping, peft_config=lora)
    with pytest.raises(ValueError, match="peft_config"):
        EpisodeTrainer(get_peft_model(model, lora), tokenizer, None, args, learner, config.grouping)


def test_without_trl_the_extra_is_named():
    program = "import sys; sys.modules['trl'] = None; import cluster.adapters.trl.trainer"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: trl is not installed: pip install 'entente[trl]'"
