"""Keys that a run chooses: by earlier batches alone, the chain that predicts best, and through a checkpoint."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from grpo_core.advantages.key_choice import NOTHING_KNOWN, chain_name
from grpo_core.advantages.pipeline import AdvantageMemory
from grpo_core.settings import GroupingSettings
from tests.unit.grpo_core.advantages.test_pipeline import advantages_of

TELLING, SILENT = ("country+difficulty", "country"), ("country+colour", "country")
CHOOSING = {"keys": "choose", "choices": (SILENT, TELLING)}


def rows(seed, difficulty_counts=True):
    """Returns that depend on the difficulty, and on nothing else that is known."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(80):
        facts = {"difficulty": number % 4, "colour": int(draw.integers(4))}
        level = 10.0 * facts["difficulty"] if difficulty_counts else 10.0 * facts["colour"]
        found.append(("A", level + float(draw.normal()), facts))
    return found


def test_nothing_known_takes_the_first_and_then_what_has_predicted_best():
    first = advantages_of(rows(0), **CHOOSING)
    assert first.grouping.keys == SILENT
    second = advantages_of(rows(1), memory=first.memory, **CHOOSING)
    assert second.grouping.keys == TELLING
    assert second.memory.choice.explained(TELLING) == pytest.approx(1.0, abs=0.03)
    assert second.memory.choice.explained(SILENT) < 0.05


def test_a_batch_has_no_part_in_the_choice_of_its_own_keys():
    known = advantages_of(rows(0), **CHOOSING).memory
    other = advantages_of(rows(2, difficulty_counts=False), memory=known, **CHOOSING)
    assert other.grouping.keys == TELLING  # although the other chain would predict these returns
    plain = advantages_of(rows(2, difficulty_counts=False), keys=TELLING)
    np.testing.assert_array_equal(other.advantages, plain.advantages)


def test_a_chain_that_places_nothing_predicts_nothing():
    """Its samples have no advantage as long as there is no running baseline, which is no prediction either."""
    alone = [("A", value, {**facts, "unique": number}) for number, (_, value, facts) in enumerate(rows(0))]
    found = advantages_of(alone, keys="choose", choices=(TELLING, ("country+unique",))).memory.choice
    assert found.explained(("country+unique",)) == pytest.approx(0, abs=1e-6)
    assert found.explained(TELLING) > 0.9


def test_shrinkage_has_one_chain():
    with pytest.raises(ValidationError, match="shrinkage"):
        GroupingSettings(**CHOOSING, shrinkage=True)


def test_old_batches_are_forgotten():
    memory = advantages_of(rows(0), **CHOOSING).memory
    for seed in range(1, 30):
        memory = advantages_of(rows(seed, difficulty_counts=False), memory=memory, **CHOOSING).memory
    assert advantages_of(rows(99), memory=memory, **CHOOSING).grouping.keys == SILENT


def test_what_is_explained_is_one_less_the_squares_left_by_other_episodes_means():
    sample = rows(3)
    values = np.array([value for _, value, _ in sample])
    level = np.array([facts["difficulty"] for _, _, facts in sample])
    left = sum((value - values[(level == own) & (np.arange(80) != place)].mean()) ** 2
               for place, (value, own) in enumerate(zip(values, level, strict=True)))  # fmt: skip
    found = advantages_of(sample, **CHOOSING).memory.choice
    assert found.explained(TELLING) == pytest.approx(1 - left / ((values - values.mean()) ** 2).sum(), rel=1e-5)


def test_memory_survives_a_checkpoint_and_fixed_keys_remember_nothing():
    memory = advantages_of(rows(0), **CHOOSING).memory
    record, arrays = memory.export()
    assert AdvantageMemory.restore(json.loads(json.dumps(record)), arrays).choice == memory.choice
    assert advantages_of(rows(0), keys=TELLING).memory.choice == NOTHING_KNOWN
    assert chain_name(TELLING) in memory.choice.left_out


def test_a_choice_needs_two_chains():
    for choices in ((), (TELLING,), (TELLING, ())):
        with pytest.raises(ValidationError, match="two or more chains"):
            GroupingSettings(keys="choose", choices=choices)
