"""Measures the effect of grouping on the policy gradient, on one set of real seven-power games.

A policy plays continuations of saved positions. Every block of continuations has a country, a line-up and a position
(its fork). The same episodes are then grouped in every way: not at all, by batch, country, line-up, segment, phase or
fork, and by an outcome, which configs may not do.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cluster.configs.schema import Config
from cluster.errors import RunError
from cluster.evaluation.players.opening import language_policy
from cluster.runs.folder import config_of
from cluster.runs.progress_bars import AddBar
from cluster.runs.provenance import commit, provenance
from grpo_core.advantages.grouping import Sample, samples_of
from grpo_core.advantages.method import BATCH_MEAN, NO_BASELINE, AdvantageMethod, reference_advantages
from grpo_core.advantages.returns import sample_returns
from grpo_core.batching.microbatches import training_turns
from grpo_core.checkpoints.folders import latest_checkpoint
from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.gradients.quality import GradientQuality, TurnScores, batch_gradients, gradient_quality, turn_scores
from grpo_core.models.pretrained import load_model
from grpo_core.seeds import derive_seed
from grpo_core.types import Episode, FloatArray
from opponents.matchmaking.lineup import LineupBlock
from opponents.play import make_episode, play_game
from opponents.players.llm_policy import TokenizedLanguage
from services.environments.diplomacy.bots.registry import make_bot
from services.environments.diplomacy.game import DiplomacyGame
from services.environments.diplomacy.position import POWERS
from services.environments.playing import Policy
from services.inference.torch_backend.engine import TorchEngine

FORKS = 2  # saved positions of each country and line-up in a batch
CONTINUATIONS = 4  # games from each of them
LINEUPS = (("random",) * 6, ("dumbbot", "random") * 3)
BATCH_BLOCKS = len(POWERS) * len(LINEUPS) * FORKS
CONCURRENT_GAMES = 64
RETURN_QUARTILE = "return_quartile"  # the fact made from an outcome

Returns = Literal["per_phase", "segment", "episode"]
Tokens = Literal["sum", "mean"]  # over a turn's tokens; loss_type = "grpo" takes the mean


def _by_keys(*keys: str) -> tuple[AdvantageMethod, ...]:
    return tuple(AdvantageMethod(keys=(key,)) for key in keys)


def _with_left_out(*keys: str) -> tuple[AdvantageMethod, ...]:
    return tuple(AdvantageMethod(keys=(key,), leave_one_out=left_out) for key in keys for left_out in (False, True))


# Methods for returns of turns, for their means over tokens, and for returns of episodes.
_PHASE, _CENTERS = "country+phase", "country+phase+own_centers"
_TURN_METHODS = (
    NO_BASELINE,
    BATCH_MEAN,
    *_by_keys("country", "country+lineup", "country+segment", _PHASE, _CENTERS),
    AdvantageMethod(keys=(_CENTERS, _PHASE), shrinkage=True),
    *_with_left_out("country+fork", "country+fork+phase"),
    *_by_keys("country+return_quartile"),
)
_TOKEN_MEAN_METHODS = (NO_BASELINE, BATCH_MEAN, *_by_keys("country", "country+lineup", _PHASE, "country+fork"))
_EPISODE_METHODS = (
    NO_BASELINE,
    BATCH_MEAN,
    *_by_keys("country", "country+lineup"),
    *_with_left_out("country+fork"),
    AdvantageMethod(keys=("country+fork", "country+lineup"), shrinkage=True),
    *_by_keys("country+return_quartile"),
)
_TURN_REFERENCE = ("country+lineup+phase+own_centers", "country+lineup+phase", "country+phase", "country")
_EPISODE_REFERENCE = ("country+lineup", "country")


@dataclass(frozen=True, slots=True)
class GradientKind:
    """One kind of gradient and the ways of grouping that are compared in it."""

    returns: Returns
    tokens: Tokens
    methods: tuple[AdvantageMethod, ...]


def gradient_kinds(returns: Returns) -> tuple[GradientKind, ...]:
    """The compared kinds of gradient; turns have segment returns if the run learns from those."""
    of_turns: Returns = "segment" if returns == "segment" else "per_phase"
    return (
        GradientKind(of_turns, "sum", _TURN_METHODS),
        GradientKind(of_turns, "mean", _TOKEN_MEAN_METHODS),
        GradientKind("episode", "sum", _EPISODE_METHODS),
    )


def measure_grouping(checkpoint: Path, batches: int, seed: int, stage: AddBar) -> dict[str, Any]:
    """Play games, take every turn's gradient and compute the advantages of the same turns in every way.

    ``checkpoint`` is the Hugging Face folder of the policy that plays, or a run folder, whose newest checkpoint plays.
    Game length, rewards, discount, returns and sampling are those of its run, or the defaults. There are at least 4
    independent ``batches`` of 112 episodes.

    Returns plain JSON: ``rows``, sizes and provenance. A value that is lost in noise is None. A row's ``drowned`` is
    the share of bootstrap draws without enough signal for its intervals.

    Raises CheckpointError if the folder is not a usable model, RunError if its run has another format, ConfigError if
    the run's config.toml is damaged.
    """
    config = config_of(checkpoint)
    if not config.world.saves_positions:
        raise RunError(f"{checkpoint}: games of the world {config.world.name} cannot go on from saved positions")
    checkpoint = latest_checkpoint(checkpoint) or checkpoint
    discount, blocks = config.learner.discount, batches * BATCH_BLOCKS
    episodes = asyncio.run(_play(checkpoint, config, discount, blocks, seed, stage))
    model, _ = load_model(checkpoint)
    use_fast_layers(model)
    turns = training_turns(episodes, 0)
    scores = turn_scores(model, turns, advance=stage("taking every turn's gradient", len(turns)))
    batch_of = np.arange(len(episodes)) // (BATCH_BLOCKS * CONTINUATIONS)
    lengths = np.array([len(turn.position_S) for turn in turns])
    rows = [
        {"returns": kind.returns, "tokens": kind.tokens, "way": str(method), **plain_quality(quality)}
        for kind in gradient_kinds(config.learner.returns)
        for method, quality in compare_ways(episodes, batch_of, scores, lengths, kind, discount).items()
    ]
    return {
        "commit": commit(),
        "provenance": provenance(),
        "checkpoint": checkpoint.name,
        "seed": seed,
        "until_year": config.game.until_year,
        "reward": config.game.reward,
        "discount": discount,
        "line_ups": [", ".join(lineup) for lineup in LINEUPS],
        "batches": batches,
        "episodes_a_batch": BATCH_BLOCKS * CONTINUATIONS,
        "episodes": len(episodes),
        "turns": len(turns),
        "rows": rows,
    }


def plain_quality(quality: GradientQuality) -> dict[str, Any]:
    """Every measure's value and interval, None where it is not finite, and the number ``drowned``."""
    measures = {
        measure: {name: number if math.isfinite(number) else None for name, number in interval.items()}
        for measure, interval in asdict(quality).items()
        if measure != "drowned"
    }
    return {**measures, "drowned": quality.drowned}


def compare_ways(
    episodes: Sequence[Episode],
    batch_of: NDArray[np.int64],
    scores: TurnScores,
    lengths: NDArray[np.int64],
    kind: GradientKind,
    discount: float,
) -> dict[AdvantageMethod, GradientQuality]:
    """Compare every way of grouping of this kind with the true gradient, which sums a turn's tokens.

    Means over a turn's tokens are multiplied by the mean number of tokens, so that both have about the same length.
    ``batch_of`` (episodes,) numbers each episode's batch; ``scores`` of all turns are sums over tokens, and ``lengths``
    (turns,) counts the sampled ones. All recorded turns have a choice, so scores and turns agree.
    """
    samples = samples_of(episodes, kind.returns)
    earned = sample_returns(episodes, kind.returns, discount)
    sample_batch = batch_of[[sample.episode for sample in samples]]
    turns_each = [len(episode.turns) for episode in episodes]
    turn_batch = np.repeat(batch_of, turns_each)
    turns_in = [np.flatnonzero(turn_batch == number) for number in range(int(batch_of.max()) + 1)]

    def gradients(advantages: FloatArray, tokens: Tokens) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        per_turn = np.repeat(advantages, turns_each) if kind.returns == "episode" else advantages
        if tokens == "mean":
            per_turn = (per_turn * (lengths.mean() / lengths)).astype(np.float32)
        return batch_gradients(scores.sketch, per_turn, turns_in), batch_gradients(
            scores.coordinates, per_turn, turns_in
        )

    def batch_by_batch(method: AdvantageMethod) -> FloatArray:
        advantages = np.zeros(len(samples), np.float32)
        for number in range(len(turns_in)):
            here = np.flatnonzero(sample_batch == number)
            chosen = _with_quartiles([samples[index] for index in here], earned[here])
            advantages[here] = method.advantages(chosen, earned[here])
        return advantages

    reference = _EPISODE_REFERENCE if kind.returns == "episode" else _TURN_REFERENCE
    truth = gradients(reference_advantages(reference, samples, earned), "sum")
    yardstick, _ = gradients(batch_by_batch(BATCH_MEAN), "sum")
    compared = {}
    for method in kind.methods:
        sketched, drawn = gradients(batch_by_batch(method), kind.tokens)
        compared[method] = gradient_quality(sketched, truth[0], yardstick, drawn, truth[1])
    return compared


def _with_quartiles(samples: Sequence[Sample], returns: FloatArray) -> list[Sample]:
    """Add the forbidden fact to samples: the quartile of their own return among their country's."""
    roles = np.array([sample.role for sample in samples])
    quartile = np.zeros(len(samples), np.int64)
    for role in set(roles.tolist()):
        mine = np.flatnonzero(roles == role)
        quartile[mine] = np.searchsorted(np.quantile(returns[mine], [0.25, 0.5, 0.75]), returns[mine])
    return [
        replace(sample, facts={**sample.facts, RETURN_QUARTILE: int(number)})
        for sample, number in zip(samples, quartile, strict=True)
    ]


async def _play(
    checkpoint: Path,
    config: Config,
    discount: float,
    blocks: int,
    seed: int,
    stage: AddBar,
) -> list[Episode]:
    game = config.game
    model, tokenizer = load_model(checkpoint)
    engine = TorchEngine(model, max_concurrent_decisions=CONCURRENT_GAMES)
    tokens = TokenizedLanguage(config.world.language, tokenizer, config.policy, config.inference)
    policy = language_policy(engine, tokens, config.inference)
    bots = {name: make_bot(name) for lineup in LINEUPS for name in lineup}
    running = asyncio.Semaphore(CONCURRENT_GAMES)
    advance = stage("playing continuations of saved positions", blocks * CONTINUATIONS)

    async def play_block(number: int) -> list[Episode]:
        power = POWERS[number % len(POWERS)]
        lineup = LINEUPS[number // len(POWERS) % len(LINEUPS)]
        others = [other for other in POWERS if other != power]
        # The same opponent always has the same seat of a line-up: country and line-up decide all seats.
        seats: dict[str, Policy] = {other: bots[name] for other, name in zip(others, lineup, strict=True)}
        seats[power] = policy
        block = LineupBlock(
            index=number,
            block_id=f"b{number:06d}",
            role=power,
            opponents=tuple(zip(others, lineup, strict=True)),
            num_generations=CONTINUATIONS,
            seed=derive_seed(seed, "block", number),
            lineup="/".join(lineup),
        )
        state = await _saved_position(block, seats, game.until_year, running)
        episodes = []
        for member in range(CONTINUATIONS):
            async with running:
                record = await play_game(
                    DiplomacyGame.from_state(state, game.until_year),
                    seats,
                    block.game_seed(member),
                    learners=(power,),
                    reward_weights=game.reward,
                    discount=discount,
                )
            episode = make_episode(config.world, block, member, power, record)
            episodes.append(replace(episode, keys={**episode.keys, "fork": block.block_id}))
            advance(1)
        return episodes

    played = await asyncio.gather(*(play_block(number) for number in range(blocks)))
    await engine.close()
    return [episode for episodes in played for episode in episodes]


async def _saved_position(
    block: LineupBlock, seats: Mapping[str, Policy], until_year: int, running: asyncio.Semaphore
) -> Mapping[str, Any]:
    """Find the start of a random year before the last one, in a game of the same seats with the country still alive."""
    attempt = 0
    while True:
        seed = derive_seed(block.seed, "saved", attempt)
        year = 1901 + seed % max(1, until_year - 1901)
        game = DiplomacyGame(year - 1)
        async with running:
            if not game.is_done:
                await play_game(game, seats, seed)
        if game.centers()[block.role] and game.state()["name"] != "COMPLETED":
            return game.state()
        attempt += 1
