"""What grouping does to the policy gradient, measured on one set of real seven-power games.

A policy plays blocks of continuations of saved positions. Every block has a country, a line-up and a fork, so that the
very same episodes can be judged without groups, by batch, country, line-up, segment, position or fork, and by an
outcome, which is what the laws of grouping forbid.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cluster.configs.schema import Config
from cluster.runs.provenance import commit, provenance
from grpo_core.advantages.grouping import Sample, samples_of
from grpo_core.advantages.returns import sample_returns
from grpo_core.batching.microbatches import training_turns
from grpo_core.checkpoints.folders import latest_checkpoint
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.gradients.quality import (
    GradientQuality,
    TurnScores,
    batch_gradients,
    gradient_quality,
    judged_by,
    reference_advantages,
    turn_scores,
)
from grpo_core.models.pretrained import load_model
from grpo_core.types import Episode, FloatArray
from opponents.bots.registry import make_bot
from opponents.matchmaking.lineup import LineupBlock
from opponents.play import make_episode, play_game
from opponents.players.llm_policy import LLMPolicy, OrderTokens
from opponents.players.policy import Policy
from opponents.seeding import derive_seed
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.inference.torch_backend.engine import TorchEngine

UNTIL_YEAR = 1905
FORKS = 2  # saved positions of each country and line-up in a batch
CONTINUATIONS = 4  # games from each of them
LINEUPS = (("random",) * 6, ("dumbbot", "random") * 3)
BATCH_BLOCKS = len(POWERS) * len(LINEUPS) * FORKS
CONCURRENT_GAMES = 64

Returns = Literal["per_phase", "episode"]
Tokens = Literal["sum", "mean"]  # of a turn's tokens; mean is what loss_type = "grpo" takes


@dataclass(frozen=True, slots=True)
class Block:
    """One kind of gradient and the ways of judging that are compared in it."""

    returns: Returns
    tokens: Tokens
    ways: tuple[str, ...]


# Turns have more known of them than whole episodes.
BLOCKS = (
    Block(
        "per_phase",
        "sum",
        (
            "none",
            "batch",
            "country",
            "country+lineup",
            "country+segment",
            "country+phase",
            "country+phase+own_centers",
            "shrunk country+phase+own_centers<country+phase",
            "country+fork",
            "left-out country+fork",
            "country+fork+phase",
            "left-out country+fork+phase",
            "country+return_quartile",
        ),
    ),
    Block("per_phase", "mean", ("none", "batch", "country", "country+lineup", "country+phase", "country+fork")),
    Block(
        "episode",
        "sum",
        (
            "none",
            "batch",
            "country",
            "country+lineup",
            "country+fork",
            "left-out country+fork",
            "shrunk country+fork<country+lineup",
            "country+return_quartile",
        ),
    ),
)
_REFERENCE: Mapping[Returns, tuple[str, ...]] = {
    "per_phase": ("country+lineup+phase+own_centers", "country+lineup+phase", "country+phase", "country"),
    "episode": ("country+lineup", "country"),
}


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One way of judging in one kind of gradient."""

    returns: Returns
    tokens: Tokens
    way: str
    quality: GradientQuality


def measure_grouping(
    checkpoint: Path, batches: int, seed: int, stage: Callable[[str, int], Callable[[int], None]]
) -> dict[str, Any]:
    """Play, take every turn's gradient, judge the same turns in every way.

    Args:
        checkpoint: Hugging Face folder of the policy that plays, or a run's, whose newest checkpoint does.
        batches: independent batches, at least 4; each of 112 episodes.
        seed: of positions and games.
        stage: called with the name of a stage and its number of steps; gives what hears of steps done.

    Returns:
        Plain JSON: ``rows``, sizes and provenance; what could not be told from the noise is None. A row's ``drowned``
        is the share of bootstrap draws that its intervals had to leave out for want of signal.

    Raises:
        CheckpointError: the folder is not a usable model.
    """
    config = Config()
    checkpoint = latest_checkpoint(checkpoint) or checkpoint
    episodes = asyncio.run(_play(checkpoint, config, batches * BATCH_BLOCKS, seed, stage))
    model, _ = load_model(checkpoint)
    use_fast_layers(model)
    turns = training_turns(episodes, 0)
    scores = turn_scores(model, turns, advance=stage("taking every turn's gradient", len(turns)))
    batch_of = np.arange(len(episodes)) // (BATCH_BLOCKS * CONTINUATIONS)
    lengths = np.array([len(turn.position_S) for turn in turns])
    rows = [row for block in BLOCKS for row in judge_all_ways(episodes, batch_of, scores, lengths, block, config)]
    return {
        "commit": commit(),
        "provenance": provenance(),
        "checkpoint": checkpoint.name,
        "seed": seed,
        "until_year": UNTIL_YEAR,
        "line_ups": [", ".join(lineup) for lineup in LINEUPS],
        "batches": batches,
        "episodes_a_batch": BATCH_BLOCKS * CONTINUATIONS,
        "episodes": len(episodes),
        "turns": len(turns),
        "rows": [
            {"returns": row.returns, "tokens": row.tokens, "way": row.way, **plain_quality(row.quality)} for row in rows
        ],
    }


def plain_quality(quality: GradientQuality) -> dict[str, Any]:
    """Every measure's value and interval, None where it is not finite, and the number ``drowned``."""
    measures = {
        measure: {name: number if math.isfinite(number) else None for name, number in interval.items()}
        for measure, interval in asdict(quality).items()
        if measure != "drowned"
    }
    return {**measures, "drowned": quality.drowned}


def judge_all_ways(
    episodes: Sequence[Episode],
    batch_of: NDArray[np.int64],
    scores: TurnScores,
    lengths: NDArray[np.int64],
    block: Block,
    config: Config,
) -> list[StudyRow]:
    """The quality of every way of judging of one block, against the true gradient, which sums a turn's tokens.

    Means over a turn's tokens are multiplied by the mean number of tokens, so that both have about the same length.
    Every turn of every episode has a choice in it (others are not remembered), so scores and turns agree.

    Args:
        episodes: all batches'.
        batch_of: (episodes,) which batch an episode is in.
        scores: of all turns, summed over tokens.
        lengths: (turns,) sampled tokens.
        block: what is compared.
        config: the discount.
    """
    returns = block.returns
    samples = samples_of(episodes, returns)
    earned = sample_returns(episodes, returns, config.learner.discount)
    sample_batch = batch_of[[sample.episode for sample in samples]]
    turn_batch = np.repeat(batch_of, [len(episode.turns) for episode in episodes])
    turns_in = [np.flatnonzero(turn_batch == number) for number in range(int(batch_of.max()) + 1)]

    def gradients(advantages: FloatArray, tokens: Tokens) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        per_turn = advantages
        if returns == "episode":
            per_turn = np.repeat(advantages, [len(episode.turns) for episode in episodes])
        if tokens == "mean":
            per_turn = (per_turn * (lengths.mean() / lengths)).astype(np.float32)
        sketched = batch_gradients(scores.sketch, per_turn, turns_in)
        return sketched, batch_gradients(scores.coordinates, per_turn, turns_in)

    def batch_by_batch(way: str) -> FloatArray:
        advantages = np.zeros(len(samples), np.float32)
        for number in range(len(turns_in)):
            here = np.flatnonzero(sample_batch == number)
            chosen = _with_quartiles([samples[index] for index in here], earned[here])
            advantages[here] = judged_by(way, chosen, earned[here])
        return advantages

    truth = gradients(reference_advantages(_REFERENCE[returns], samples, earned), "sum")
    yardstick, _ = gradients(batch_by_batch("batch"), "sum")
    rows = []
    for way in block.ways:
        sketched, drawn = gradients(batch_by_batch(way), block.tokens)
        quality = gradient_quality(sketched, truth[0], yardstick, drawn, truth[1])
        rows.append(StudyRow(returns, block.tokens, way, quality))
    return rows


def _with_quartiles(samples: Sequence[Sample], returns: FloatArray) -> list[Sample]:
    """Samples that also know the quartile of their own return among their country's: the leak to be shown."""
    roles = np.array([sample.role for sample in samples])
    quartile = np.zeros(len(samples), np.int64)
    for role in set(roles.tolist()):
        mine = np.flatnonzero(roles == role)
        quartile[mine] = np.searchsorted(np.quantile(returns[mine], [0.25, 0.5, 0.75]), returns[mine])
    return [
        replace(sample, facts={**sample.facts, "return_quartile": int(number)})
        for sample, number in zip(samples, quartile, strict=True)
    ]


async def _play(
    checkpoint: Path, config: Config, blocks: int, seed: int, stage: Callable[[str, int], Callable[[int], None]]
) -> list[Episode]:
    model, tokenizer = load_model(checkpoint)
    engine = TorchEngine(model, max_concurrent_decisions=CONCURRENT_GAMES)
    policy = LLMPolicy(engine, OrderTokens(tokenizer), max_completion_length=config.inference.max_completion_length)
    bots = {name: make_bot(name) for lineup in LINEUPS for name in lineup}
    tables = asyncio.Semaphore(CONCURRENT_GAMES)
    advance = stage("playing continuations of saved positions", blocks * CONTINUATIONS)

    async def block(number: int) -> list[Episode]:
        power = POWERS[number % len(POWERS)]
        lineup = LINEUPS[number // len(POWERS) % len(LINEUPS)]
        others = [other for other in POWERS if other != power]
        # The six are dealt anew for each line-up only, so that country and line-up are one thing to condition on.
        seats: dict[str, Policy] = {other: bots[name] for other, name in zip(others, lineup, strict=True)}
        seats[power] = policy
        plan = LineupBlock(
            index=number,
            block_id=f"b{number:06d}",
            learner_power=power,
            opponents=tuple(zip(others, lineup, strict=True)),
            num_generations=CONTINUATIONS,
            seed=derive_seed(seed, "block", number),
            lineup="/".join(lineup),
        )
        state = await _saved_position(plan, seats, tables)
        episodes = []
        for member in range(CONTINUATIONS):
            async with tables:
                game = DiplomacyGame.from_state(state, UNTIL_YEAR)
                record = await play_game(
                    game,
                    seats,
                    plan.game_seed(member),
                    learners=(power,),
                    reward_weights=config.game.reward,
                    discount=config.learner.discount,
                )
            episode = make_episode(plan, member, power, record, config.game.reward)
            episodes.append(replace(episode, keys={**episode.keys, "fork": plan.block_id}))
            advance(1)
        return episodes

    played = await asyncio.gather(*(block(number) for number in range(blocks)))
    await engine.close()
    return [episode for episodes in played for episode in episodes]


async def _saved_position(
    plan: LineupBlock, seats: Mapping[str, Policy], tables: asyncio.Semaphore
) -> Mapping[str, Any]:
    """The beginning of a drawn year, 1901 to 1904, in a game of the same seats in which the country is still alive."""
    attempt = 0
    while True:
        seed = derive_seed(plan.seed, "saved", attempt)
        year = 1901 + seed % 4
        game = DiplomacyGame(year - 1)
        async with tables:
            if not game.is_done:
                await play_game(game, seats, seed)
        if game.centers()[plan.learner_power] and game.state()["name"] != "COMPLETED":
            return game.state()
        attempt += 1
