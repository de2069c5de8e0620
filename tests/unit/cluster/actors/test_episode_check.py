"""Episodes that the codec reads and the learner cannot use: each has its reason, and is set aside as poison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.actors.batch_collector import BatchCollector
from cluster.actors.episode_check import EpisodeCheck
from cluster.actors.learner import LearnerWorker
from cluster.configs.loader import load_config
from grpo_core.types import Episode, Turn
from services.environments.diplomacy.position import POWERS
from services.replay.buffer import UnreadableError
from services.replay.codec import decode, encode
from services.replay.memory_buffer import MemoryBuffer
from tests.unit.cluster.actors.test_batch_collector import CONFIG, episodes

GOOD = episodes()[0]
CHECK = EpisodeCheck.of(CONFIG, vocabulary=24)


def with_turn(**changes: Any) -> Episode:
    return dataclasses.replace(GOOD, turns=(dataclasses.replace(GOOD.turns[0], **changes),))


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def with_sample(turn: Turn, token: int) -> np.ndarray:
    completion = turn.completion_ids.copy()
    completion[turn.trained_mask] = token
    return completion


def admissible_twice(turn: Turn) -> dict[str, np.ndarray]:
    sampled = turn.completion_ids[turn.trained_mask]
    return {
        "admissible_ids": np.repeat(sampled, 2).astype(np.int32),
        "admissible_offsets": np.arange(0, 2 * len(sampled) + 1, 2, dtype=np.int32),
    }


CASES: dict[str, tuple[Callable[[], Episode], str]] = {
    "role": (lambda: dataclasses.replace(GOOD, role="NOWHERE"), "role 'NOWHERE' is none of AUSTRIA"),
    "block": (lambda: dataclasses.replace(GOOD, block_size=9), "of a block of 9, and rollout.num_generations is 2"),
    "outcome": (lambda: dataclasses.replace(GOOD, outcome={"solo": 1.0}), "its outcome lacks centers"),
    "reward": (lambda: dataclasses.replace(GOOD, reward=1e30), "reward or outcome is over"),
    "part": (lambda: dataclasses.replace(GOOD, reward_parts={"x": -1e30}), "reward or outcome is over"),
    "prompt": (lambda: with_turn(prompt_ids=ids(3, 24)), "turn 0: token 24, and the policy's vocabulary has 24"),
    "no prompt": (lambda: with_turn(prompt_ids=ids()), "turn 0: a prompt and completion of"),
    "length": (lambda: with_turn(prompt_ids=ids(*[3] * 600)), "policy.context_length is 512"),
    "temperature": (lambda: with_turn(temperature=1e-30), "a temperature of 1e-30"),
    "version": (lambda: with_turn(policy_version=2**63), "a version, reward or number of phases that no game has"),
    "phases": (lambda: with_turn(elapsed_phases=2**60), "a version, reward or number of phases that no game has"),
    "log-probability": (
        lambda: with_turn(logprobs=GOOD.turns[0].logprobs + np.float32(9)),
        "a log-probability that is",
    ),
    "sample": (
        lambda: with_turn(completion_ids=with_sample(GOOD.turns[0], 2)),
        "a sampled token that was not admissible",
    ),
    "sample twice": (lambda: with_turn(**admissible_twice(GOOD.turns[0])), "not admissible, or twice"),
}


def test_an_episode_of_the_run_has_no_fault() -> None:
    assert all(CHECK.fault(episode) is None for episode in episodes())
    free = with_turn(admissible_ids=ids(), admissible_offsets=ids())
    assert "a token without a mask" in str(CHECK.fault(free))
    assert dataclasses.replace(CHECK, free_tokens=None).fault(free) is None
    assert CHECK.fault(dataclasses.replace(GOOD, turns=())) is None


def test_as_many_tokens_may_be_free_as_a_thought_may_have_and_only_before_the_orders() -> None:
    turn = next(turn for episode in episodes() for turn in episode.turns if turn.trained_mask.sum() > 1)
    counts = np.diff(turn.admissible_offsets)
    for free, allowed in (([0], True), ([len(counts) - 1], False)):
        without = counts.copy()
        without[free] = 0
        kept = np.repeat(without > 0, counts)
        thinking = dataclasses.replace(
            turn,
            admissible_ids=turn.admissible_ids[kept],
            admissible_offsets=np.concatenate([[0], np.cumsum(without)]).astype(np.int32),
        )
        check = dataclasses.replace(CHECK, free_tokens=1)
        fault = check.fault(dataclasses.replace(GOOD, turns=(thinking,)))
        assert (fault is None) == allowed, fault


@pytest.mark.parametrize("name", CASES)
def test_a_foreign_episode_has_a_fault_though_the_codec_reads_it(name: str) -> None:
    make, reason = CASES[name]
    fault = CHECK.fault(decode(encode(make())))
    assert fault is not None
    assert reason in fault


def test_a_fact_that_grouping_needs_must_be_there_and_of_its_kind() -> None:
    keys = ["country+phase", "country+start_year:3"]
    config = load_config("smoke", ["rollout.num_generations=2", "learner.returns=per_phase", f"grouping.keys={keys}"])
    check = EpisodeCheck.of(config, 24)
    assert check.fault(GOOD) == "it lacks the fact start_year, which [grouping] names"
    named = dataclasses.replace(GOOD, keys={**GOOD.keys, "start_year": "late"})
    assert check.fault(named) == "its fact start_year, of which [grouping] makes bins or clusters, is text"
    assert check.fault(dataclasses.replace(GOOD, keys={**GOOD.keys, "start_year": 1901})) is None
    turn = dataclasses.replace(GOOD.turns[0], keys={})
    bare = dataclasses.replace(GOOD, keys={**GOOD.keys, "start_year": 1901}, turns=(turn,))
    assert check.fault(bare) == "it lacks the fact phase, which [grouping] names"


def test_an_update_sets_unusable_episodes_aside_and_goes_on(tmp_path: Path) -> None:
    buffer = MemoryBuffer(group_timeout_s=60)
    worker = LearnerWorker(CONFIG, str(tmp_path), buffer, resume=False)
    arriving = episodes()
    large = dataclasses.replace(arriving[0].turns[0], prompt_ids=ids(10**9))
    arriving[0] = dataclasses.replace(arriving[0], turns=(large,))  # one of its block's two
    arriving[2:4] = [dataclasses.replace(episode, reward=1e30) for episode in arriving[2:4]]  # a whole block
    buffer.append(arriving)
    report, _ = worker.update(dict.fromkeys(POWERS, 2), 0.01)
    assert report.episodes == len(arriving) - 3
    worker.checkpoint()
    stats = buffer.stats()
    assert (stats["poison"], stats["acknowledged"], stats["delivered"]) == (3, len(arriving) - 3, 0)
    assert buffer.unreadable_ids(POWERS[0]) == {"b000000/0"}
    assert buffer.unreadable_ids(POWERS[1]) == {"b000001/0", "b000001/1"}


def test_a_foreign_block_that_cannot_be_used_takes_no_place_of_the_runs_own() -> None:
    def foreign(block: str) -> list[Episode]:
        return [
            dataclasses.replace(episode, block_id=block, episode_id=f"{block}/{n}", reward=1e30)
            for n, episode in enumerate(episodes()[:2])
        ]

    buffer = MemoryBuffer(group_timeout_s=60)
    buffer.append([*foreign("theirs"), *episodes()[:2]])
    collector = BatchCollector(buffer, 2, 1, 0, CHECK.fault)
    collector.take({POWERS[0]: 1}, 0.01)
    assert [episode.block_id for episode in collector.episodes] == ["b000000", "b000000"]
    assert buffer.stats()["poison"] == 2
    # Without one of its own to take, it goes on with what it has.
    buffer.append([*foreign("also-theirs"), *episodes()[2:4]])
    collector.take({POWERS[0]: 1, POWERS[1]: 1}, 0.01)
    assert [episode.block_id for episode in collector.episodes][2:] == ["b000001", "b000001"]


def test_blocks_without_a_usable_episode_can_be_replaced() -> None:
    buffer = MemoryBuffer(group_timeout_s=60)
    buffer.append([dataclasses.replace(episode, reward=1e30) for episode in episodes()[:2]])
    collector = BatchCollector(buffer, 2, 1, 0, CHECK.fault)
    with pytest.raises(UnreadableError, match="none of the blocks can be read") as raised:
        collector.take({POWERS[0]: 1}, 0.01)
    assert raised.value.missing == {POWERS[0]: 1}
    buffer.append(
        [dataclasses.replace(episode, block_id="b9", episode_id=f"b9/{n}") for n, episode in enumerate(episodes()[:2])]
    )
    collector.take({POWERS[0]: 1}, 0.01)
    assert len(collector.episodes) == 2
