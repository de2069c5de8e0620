"""Learner tokens a second beside the plain way: every turn padded into one batch, full logits everywhere."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from cluster.bench.figure import Figure, interleaved_seconds
from grpo_core.learner import Learner
from grpo_core.models.pretrained import make_small_model
from grpo_core.settings import GroupingSettings, LearnerSettings, PolicySettings
from grpo_core.types import Batch, Episode, Turn

VOCABULARY = 400
EPISODES = 20
TURNS_EACH = 10
LONGEST_TURN = 140  # tokens of prompt and completion
ROLES = ("ENGLAND", "FRANCE")
GROUPING = GroupingSettings(min_group_size=2)  # the smallest batch has two episodes of each role


def run(rounds: int) -> list[Figure]:
    """One optimizer step on 200 ragged turns; ``rounds`` alternating timings a side, on one thread.

    Both count the same tokens: every prompt and completion token of the batch, padding excluded.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = make_small_model(PolicySettings(), VOCABULARY, eos_id=1, bos_id=2, pad_id=0, seed=5)
        episodes = ragged_episodes(seed=11)
        settings = LearnerSettings(learning_rate=1e-5, lr_warmup_updates=0, minibatches=1)
        learner = Learner(copy.deepcopy(model), settings, GROUPING, seed=3)
        plain = PaddedLearner(model, settings, episodes)
        # The first step of both warms up and must find the same loss, else the rates cannot be compared.
        ours = learner.step(Batch(episodes, learner.version)).metrics["loss"]
        theirs = plain.step()
        if not math.isclose(ours, theirs, abs_tol=1e-4):
            raise RuntimeError(f"the two losses differ ({ours} and {theirs}); their rates cannot be compared")
        ours_s, plain_s = interleaved_seconds(
            lambda: _discard(learner.step(Batch(episodes, learner.version))), lambda: _discard(plain.step()), rounds
        )
    finally:
        torch.set_num_threads(threads)
    tokens = sum(episode.tokens for episode in episodes)
    return [
        Figure(
            name="learner",
            unit="tokens/s",
            ours=tokens / ours_s,
            yardstick=tokens / plain_s,
            yardstick_name="one padded batch, full logits",
            note=f"{EPISODES * TURNS_EACH} turns of 65-140 tokens, 4 x 128 policy, 1 thread, median of {rounds}",
        )
    ]


class PaddedLearner:
    """The same update written the plain way; its tensors are made before the clock starts."""

    def __init__(self, model: PreTrainedModel, settings: LearnerSettings, episodes: tuple[Episode, ...]) -> None:
        self._model, self._settings = model, settings
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.learning_rate, betas=(0.9, settings.adam_beta2), weight_decay=0.0
        )
        turns = [turn for episode in episodes for turn in episode.turns]
        longest = max(len(turn.prompt_ids) + len(turn.completion_ids) for turn in turns)
        shape = (len(turns), longest)
        self._ids = torch.zeros(shape, dtype=torch.long)
        self._attention = torch.zeros(shape, dtype=torch.long)
        self._targets = torch.zeros(shape, dtype=torch.long)
        self._behaviour, self._weights, self._advantages = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape)
        self._refused = torch.zeros((*shape, VOCABULARY), dtype=torch.bool)
        advantages = plain_advantages(episodes)
        for row, turn in enumerate(turns):
            text = np.concatenate([turn.prompt_ids, turn.completion_ids])
            self._ids[row, : len(text)] = torch.from_numpy(text)
            self._attention[row, : len(text)] = 1
            for sample, index in enumerate(np.flatnonzero(turn.trained_mask)):
                column = len(turn.prompt_ids) + int(index) - 1
                self._targets[row, column] = int(turn.completion_ids[index])
                self._behaviour[row, column] = float(turn.logprobs[index])
                self._weights[row, column] = 1 / (turn.trained_mask.sum() * len(turns))
                self._advantages[row, column] = advantages[row]
                start, end = turn.admissible_offsets[sample : sample + 2]
                self._refused[row, column] = True
                self._refused[row, column, torch.from_numpy(turn.admissible_ids[start:end]).long()] = False

    def step(self) -> float:
        """One optimizer step over everything; returns the loss."""
        self._optimizer.zero_grad()
        logits: Tensor = self._model(input_ids=self._ids, attention_mask=self._attention, use_cache=False).logits
        logs = torch.log_softmax(logits.masked_fill(self._refused, -torch.inf), -1)
        chosen = logs.gather(-1, self._targets[..., None]).squeeze(-1)
        ratio = torch.exp(torch.where(self._weights > 0, chosen - self._behaviour, 0.0))
        clipped = ratio.clamp(1 - self._settings.epsilon, 1 + self._settings.epsilon_high)
        surrogate = torch.minimum(ratio * self._advantages, clipped * self._advantages)
        loss = -(self._weights * surrogate).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._settings.max_grad_norm)
        self._optimizer.step()
        return float(loss.detach())


def plain_advantages(episodes: tuple[Episode, ...]) -> list[float]:
    """Returns-to-go centred by country and divided by the batch's deviation, turn by turn (one phase, one group)."""
    returns: dict[str, list[float]] = {role: [] for role in ROLES}
    order: list[tuple[str, int]] = []
    for episode in episodes:
        following, values = 0.0, []
        for turn in reversed(episode.turns):
            following = turn.reward + 0.85 * following
            values.append(following)
        for value in reversed(values):
            order.append((episode.role, len(returns[episode.role])))
            returns[episode.role].append(value)
    means = {role: sum(values) / len(values) for role, values in returns.items()}
    centred = [returns[role][index] - means[role] for role, index in order]
    scale = math.sqrt(sum(value * value for value in centred) / len(centred))
    return [value / (scale + 1e-4) for value in centred]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a made-up turn: bounds of its prompt and of its completion, the upper ones excluded."""

    prompt: tuple[int, int] = (60, 96)
    completion: tuple[int, int] = (5, 46)


def ragged_episodes(seed: int, lengths: Lengths | None = None) -> tuple[Episode, ...]:
    """Twenty episodes of ten turns of such lengths; two fifths of their completions' tokens are sampled."""
    rng, lengths = np.random.default_rng(seed), lengths or Lengths()
    return tuple(
        Episode(
            episode_id=f"bench/{index}",
            task="bench",
            role=ROLES[index % len(ROLES)],
            block_id="bench",
            block_size=EPISODES,
            keys={},
            turns=tuple(_ragged_turn(rng, lengths) for _ in range(TURNS_EACH)),
            reward=0.0,
            reward_parts={},
            outcome={},
            seed=seed,
        )
        for index in range(EPISODES)
    )


def decoded_freely(episodes: Sequence[Episode], vocabulary: int) -> tuple[Episode, ...]:
    """The same turns as if every id had been admissible, and about equally likely, as a fresh policy has it."""
    nothing = np.zeros(0, np.int32)
    uniform = np.float32(-math.log(vocabulary))
    return tuple(
        dataclasses.replace(
            episode,
            turns=tuple(
                dataclasses.replace(
                    turn,
                    admissible_ids=nothing,
                    admissible_offsets=nothing,
                    logprobs=np.where(turn.trained_mask, uniform, np.float32(0)),
                )
                for turn in episode.turns
            ),
        )
        for episode in episodes
    )


def _ragged_turn(rng: np.random.Generator, lengths: Lengths) -> Turn:
    completion = rng.integers(3, VOCABULARY, int(rng.integers(*lengths.completion)), dtype=np.int32)
    mask = rng.random(len(completion)) < 0.4
    mask[int(rng.integers(len(mask)))] = True
    admissible = [
        np.unique(np.append(rng.integers(3, VOCABULARY, int(rng.integers(1, 30)), dtype=np.int32), target))
        for target in completion[mask]
    ]
    logprobs = np.zeros(len(completion), np.float32)
    logprobs[mask] = [-math.log(len(ids)) for ids in admissible]  # the fresh policy is about uniform
    return Turn(
        prompt_ids=rng.integers(3, VOCABULARY, int(rng.integers(*lengths.prompt)), dtype=np.int32),
        completion_ids=completion,
        logprobs=logprobs,
        trained_mask=mask,
        admissible_ids=np.concatenate(admissible).astype(np.int32),
        admissible_offsets=np.cumsum([0, *(len(ids) for ids in admissible)]).astype(np.int32),
        policy_version=0,
        temperature=1.0,
        phase="S1901M",
        reward=float(rng.normal()),
        keys={"phase": "S1901M", "segment": "opening"},
    )


def _discard(_: object) -> None:
    """Timed calls return nothing."""
