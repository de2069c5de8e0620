"""The judgement of each sample: its baseline explains its advantage in every setting."""

import numpy as np
import pytest

from grpo_core.advantages.group_baseline import SCALE_EPS, RunningBaseline
from grpo_core.advantages.judgements import sample_judgements
from grpo_core.advantages.pipeline import compute_advantages
from grpo_core.settings import GroupingSettings, LearnerSettings
from tests.unit.grpo_core.advantages.test_pipeline import episodes_of

ROWS = [
    *(("A", float(value), {"difficulty": value % 3}) for value in (1, 5, 2, 8, 8)),
    ("B", 3.0, {"difficulty": 1}),
    *(("C", 4.0, {"difficulty": 1}) for _ in range(2)),
]


def judged(running, **options):
    grouping = GroupingSettings(keys=("country+difficulty", "country"), min_group_size=2, **options)
    found = compute_advantages(episodes_of(ROWS), LearnerSettings(returns="episode"), grouping, running)
    return sample_judgements(found), found


@pytest.mark.parametrize("baseline", ["mean", "leave_one_out"])
@pytest.mark.parametrize("shrinkage", [False, True])
@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_an_advantage_is_the_return_less_its_baseline_divided_by_the_scale(baseline, shrinkage, scale):
    options = {"baseline": baseline, "shrinkage": shrinkage, "scale_rewards": scale}
    each, found = judged({"B": RunningBaseline(1.0, 4.0)}, **options)
    assert [one.value for one in each] == [row[1] for row in ROWS]
    assert [one.advantage for one in each] == found.advantages.tolist()
    centred = np.array([0.0 if one.zero_variance else one.value - one.baseline for one in each])
    divisors = {
        "none": np.ones(len(each)),
        "group": np.array([one.std for one in each]) + SCALE_EPS,
        "batch": np.full(len(each), np.sqrt((centred**2).mean()) + SCALE_EPS),
    }
    np.testing.assert_allclose(found.advantages, centred / divisors[scale], rtol=1e-5)


def test_samples_name_the_group_that_decided_them():
    each, _ = judged({"B": RunningBaseline(1.0, 4.0)}, scale_rewards="none")
    assert [(one.level, one.key, one.size) for one in each] == [
        ("country", ("A",), 5),
        *[("country+difficulty", ("A", 2), 4)] * 4,
        ("running", ("B",), 1),
        *[("country+difficulty", ("C", 1), 2)] * 2,
    ]
    assert each[0].baseline == pytest.approx(4.8)
    assert each[1].baseline == pytest.approx(5.75)
    assert (each[5].baseline, each[5].std) == (1.0, 2.0)
    assert [one.zero_variance for one in each] == [*[False] * 6, True, True]
    unknown, _ = judged({})
    assert (unknown[5].baseline, unknown[5].std, unknown[5].zero_variance) == (None, None, True)
