"""Rows of the decisions in a run's newest batch: the only training games whose turns stay on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cluster.configs.schema import Config
from cluster.export.tables import Column
from cluster.runs.folder import RunFolder, audits, grouping_in_force
from grpo_core.advantages.grouping import RUNNING_LEVEL
from grpo_core.advantages.pipeline import AdvantageBatch, compute_advantages
from grpo_core.errors import EntenteError
from grpo_core.models.pretrained import load_tokenizer
from grpo_core.types import Batch

_TOLERANCE = 1e-5
_ORDER = re.compile(r"WAIVE|[AF] [A-Z]{3}(/[A-Z]{2})? [HDBRSC-].*")

COLUMNS = (
    Column("game_id", "text", "The episode: its line-up block and its number in it"),
    Column("block", "text", "The line-up block: games with the same country, opponents and versions"),
    Column("lineup", "text", "Digest of seats, opponents and versions"),
    Column("phase", "text", "The engine's short name: S1901M movement, F1902R retreats, W1903A adjustments"),
    Column("power", "text", "The country that the policy played"),
    Column("player", "text", "The policy, and the version whose weights decided"),
    Column("prompt", "text", "The position as the policy saw it"),
    Column("completion", "text", "What the policy wrote"),
    Column("orders", "texts", "Its orders: the lines at the end of the completion, behind a thought if there is one"),
    Column("defects", "texts", "What was wrong with it: truncated, unparsed or illegal orders"),
    Column("temperature", "number", "Of the sampling"),
    Column("logprob", "number", "Log-probability of the completion when it was sampled, in nats"),
    Column("reward", "number", "Reward from this decision to the seat's next one"),
    Column("episode_reward", "number", "Reward of the whole game"),
    Column("return", "number", "What the advantage compares: see learner.returns in the run's configuration"),
    Column("advantage", "number", "Advantage; null where a running baseline decided, whose value was not kept"),
    Column("final_centers", "integer", "Supply centres at the end of the game"),
)
_SAMPLED = "the run keeps prompts and orders of its training games, and not their positions"
_LEFT_OUT = {
    "position": f"{_SAMPLED}; the prompt shows the position as this power saw it",
    "legal_orders": _SAMPLED,
}
_FREE = "decoding was free: the completion is text, and how its orders were read was not kept"


def columns_of(config: Config, advantages: str | None) -> tuple[list[Column], dict[str, str]]:
    """Return the columns that a batch fills, and the reason for each that is left out.

    ``advantages`` is the reason why these are not known, or None.
    """
    reasons = dict(_LEFT_OUT)
    if config.inference.decoding == "free":
        reasons["orders"] = _FREE
    if advantages is not None:
        reasons["advantage"] = advantages
    return [column for column in COLUMNS if column.name not in reasons], reasons


def rows_of(run: RunFolder, batch: Batch, checkpoint: int, found: AdvantageBatch | None) -> Iterator[dict[str, Any]]:
    """Yield a row for each turn of the batch; ``checkpoint`` is one whose tokenizer wrote it."""
    tokenizer: Any = load_tokenizer(run.checkpoints / str(checkpoint))
    decided = None if found is None else _decided_by_group(found)
    index = 0
    for episode in batch.episodes:
        centers = episode.outcome.get("centers")
        for turn in episode.turns:
            completion = str(tokenizer.decode(turn.completion_ids.tolist(), skip_special_tokens=True))
            row = {
                "game_id": episode.episode_id,
                "block": episode.block_id,
                "lineup": str(episode.keys["lineup"]) if "lineup" in episode.keys else None,
                "phase": turn.phase,
                "power": episode.role,
                "player": f"policy/v{turn.policy_version}",
                "prompt": str(tokenizer.decode(turn.prompt_ids.tolist())),
                "completion": completion,
                "orders": _order_lines(completion),
                "defects": list(turn.defects),
                "temperature": turn.temperature,
                "logprob": float(turn.logprobs.sum()),
                "reward": turn.reward,
                "episode_reward": episode.reward,
                "final_centers": None if centers is None else int(centers),
            }
            if found is not None and decided is not None:
                sample = found.sample_of_turn[index]
                row["return"] = float(found.returns[sample])
                row["advantage"] = float(found.advantages[sample]) if decided[sample] else None
            index += 1
            yield row


def _order_lines(completion: str) -> list[str]:
    """The order sheet at the end of a constrained completion; a thought before it ends with another line."""
    lines = completion.rstrip("\n").split("\n")
    first = len(lines)
    while first and _ORDER.fullmatch(lines[first - 1]):
        first -= 1
    return lines[first:]


def advantages_of(run: RunFolder, config: Config, batch: Batch) -> tuple[AdvantageBatch | None, str | None]:
    """Compute the batch's advantages again; the second is the reason why they are not known, else None.

    They are taken only if every group agrees with the update's audit record. What depends on earlier batches (group
    weights, adaptive clusters, running baselines) was not kept.
    """
    version = batch.learner_version + 1
    grouping = grouping_in_force(run.path, config.grouping, version)
    try:
        found = compute_advantages(batch.episodes, config.learner, grouping, {})
    except EntenteError as error:
        return None, f"the run's configuration does not fit its last batch: {error}"
    if config.grouping.group_weights != "none" or any("adaptive" in key for key in config.grouping.declared_keys):
        return found, "group weights and adaptive clusters depend on earlier batches, which the run does not keep"
    record = audits(run.path).get(version)
    if record is None:
        return found, f"audit/{version:06d}.json, with which they are compared, is missing"
    as_then = (record.get("scale_rewards"), record.get("baseline")) == (grouping.scale_rewards, grouping.baseline)
    if not as_then or not _agrees(found, record.get("groups")):
        return found, f"computed again they differ from audit/{version:06d}.json: the configuration has changed since"
    return found, None


def _agrees(found: AdvantageBatch, audited: Any) -> bool:
    """Whether the groups have the members, means and deviations of the audit record, running baselines left out."""

    def comparable(levels: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[Any, ...]]:
        return [
            (level, list(map(str, each["key"])), each["size"], each["judged"])
            for level, each in levels
            if level != RUNNING_LEVEL
        ]

    if not isinstance(audited, list):
        return False
    ours: list[dict[str, Any]] = [
        {"key": group.key, "size": len(group.members), "judged": len(group.decided), "mean": each.mean, "std": each.std}
        for group, each in zip(found.groups, found.group_statistics, strict=True)
    ]
    mine = list(zip((group.level for group in found.groups), ours, strict=True))
    try:
        theirs = [(str(each["level"]), each) for each in audited]
        if comparable(mine) != comparable(theirs):
            return False
        return all(
            np.isclose(one[name], other[name], rtol=_TOLERANCE, atol=_TOLERANCE)
            for (level, one), (_, other) in zip(mine, theirs, strict=True)
            if level != RUNNING_LEVEL
            for name in ("mean", "std")
        )
    except (KeyError, TypeError):
        return False


def _decided_by_group(found: AdvantageBatch) -> list[bool]:
    """For each sample, whether a group of this batch decided its advantage."""
    decided = [False] * len(found.samples)
    for group in found.groups:
        if group.level != RUNNING_LEVEL:
            for sample in group.decided:
                decided[sample] = True
    return decided
