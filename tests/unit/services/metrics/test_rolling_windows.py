from __future__ import annotations

import json
from statistics import fmean, stdev

import pytest

from grpo_core.types import Episode
from services.environments.diplomacy.settings import GameSettings
from services.environments.diplomacy.world import Diplomacy
from services.metrics.catalogue import check
from services.metrics.rolling_windows import RoleWindows
from tests.measured import CHAIRS, DIPLOMACY, WITH_PRESS


def episode(role: str, reward: float, block: str = "b0", **outcome: float) -> Episode:
    return Episode(
        episode_id=f"{role}/{reward}",
        task="diplomacy",
        role=role,
        block_id=block,
        block_size=1,
        keys={},
        turns=(),
        reward=reward,
        reward_parts={},
        outcome=outcome,
        seed=0,
    )


def test_role_without_episodes_has_no_data() -> None:
    windows = RoleWindows(DIPLOMACY)
    windows.add(episode("FRANCE", 1.0, centers=5))
    assert windows.summary("ITALY") is None
    assert not any("ITALY" in name for name in windows.metrics())


def test_single_episode_has_a_mean_and_no_deviation() -> None:
    windows = RoleWindows(DIPLOMACY)
    windows.add(episode("FRANCE", 1.5, centers=5, solo=0, survived=1, top=1, phases=12))
    summary = windows.summary("FRANCE")
    assert summary is not None
    assert (summary.episodes, summary.reward, summary.reward_std, summary.phases) == (1, 1.5, None, 12)
    assert summary.values == {"centers": 5, "win_rate": 0, "top_rate": 1, "survival_rate": 1}
    assert "entente_country_reward_std{country=FRANCE}" not in windows.metrics()


def test_summary_uses_the_last_episodes_only() -> None:
    windows = RoleWindows(DIPLOMACY, size=100)
    rewards = [float(number % 17) for number in range(250)]
    for number, reward in enumerate(rewards):
        windows.add(episode("FRANCE", reward, solo=float(number >= 200)))
    summary = windows.summary("FRANCE")
    assert summary is not None
    assert summary.episodes == 100
    assert summary.reward == pytest.approx(fmean(rewards[-100:]))
    assert summary.reward_std == pytest.approx(stdev(rewards[-100:]))
    assert summary.values["win_rate"] == 0.5


def test_a_share_of_counted_things_is_one_of_all_things_and_none_without_them() -> None:
    windows = RoleWindows(Diplomacy(GameSettings(press_rounds=1)).measured)
    windows.add(episode("FRANCE", 1.0, promises=0, honesty=1.0))
    summary = windows.summary("FRANCE")
    assert summary is not None
    assert "honesty" not in summary.values
    assert not any("honesty" in name for name in windows.metrics())
    windows.add(episode("FRANCE", 1.0, promises=8, honesty=0.25))
    windows.add(episode("FRANCE", 1.0, promises=2, honesty=1.0))
    summary = windows.summary("FRANCE")
    assert summary is not None
    assert summary.values["honesty"] == pytest.approx(0.4)
    assert windows.metrics()["entente_country_honesty{country=FRANCE}"] == pytest.approx(0.4)


def test_metrics_are_in_the_catalogue() -> None:
    windows = RoleWindows(DIPLOMACY)
    for reward in (1.0, 2.0):
        windows.add(episode("FRANCE", reward, centers=4, phases=10))
    metrics = windows.metrics()
    check(metrics)
    assert metrics["entente_country_centers{country=FRANCE}"] == 4
    assert len(metrics) == 7


def test_checkpoint_restores_the_windows() -> None:
    windows = RoleWindows(DIPLOMACY, size=3)
    for reward in range(5):
        windows.add(episode("FRANCE", float(reward), block=f"b{reward}", centers=reward))
    restored = RoleWindows(DIPLOMACY, size=3)
    restored.load_state(json.loads(json.dumps(windows.state())))
    assert restored.summary("FRANCE") == windows.summary("FRANCE")
    assert [fact.block for fact in restored.facts()["FRANCE"]] == ["b2", "b3", "b4"]


def test_checkpoint_without_blocks_counts_as_one_block() -> None:
    windows = RoleWindows(DIPLOMACY)
    windows.load_state({"FRANCE": [[1.0, 4.0, 0.0, 1.0, 1.0, 12.0]] * 2})
    assert {fact.block for fact in windows.facts()["FRANCE"]} == {""}


def test_the_state_of_diplomacys_windows_has_the_rows_of_earlier_versions() -> None:
    windows = RoleWindows(DIPLOMACY)
    windows.add(episode("FRANCE", 1.5, "b7", centers=5, solo=0, survived=1, top=0.5, phases=12))
    assert windows.state() == {"FRANCE": [[1.5, 5, 0, 0.5, 1, 12, "b7"]]}


def test_another_worlds_windows_follow_its_own_measures() -> None:
    windows = RoleWindows(CHAIRS)
    for chips in (-2.0, 1.0):
        windows.add(episode("B", chips, chips=chips, showdown=float(chips > 0), regret=9.0, phases=3))
    metrics = windows.metrics()
    check(metrics)
    assert metrics["entente_chair_chips{chair=B}"] == -0.5
    assert metrics["entente_chair_showdown_rate{chair=B}"] == 0.5
    assert metrics["entente_chair_bet_rate{chair=B}"] == 0.0  # its games say nothing of it
    assert not any("regret" in name for name in metrics)
    restored = RoleWindows(CHAIRS)
    restored.load_state(json.loads(json.dumps(windows.state())))
    assert restored.facts() == windows.facts()


@pytest.mark.parametrize("row", [[1.0, 2.0, 0.0], [1.0] * 8, [1.0, "x", 0.0, 0.0, 0.0, 12.0], [1.0] * 6 + ["b", "c"]])
def test_rows_of_other_measures_are_refused(row: list[object]) -> None:
    with pytest.raises(ValueError, match=r"of an episode|an episode has"):
        RoleWindows(DIPLOMACY).load_state({"FRANCE": [row]})


PROMISED = {"promises_to/ITALY": 3.0, "promises_kept_to/ITALY": 1.0, "years_with/ITALY": 2.0}


def test_shares_by_partner_are_of_all_games_together() -> None:
    windows = RoleWindows(WITH_PRESS, size=2)
    windows.add(episode("FRANCE", 0.0, **{"promises_to/TURKEY": 9.0}))  # dropped by the third
    windows.add(episode("FRANCE", 0.0, **PROMISED))
    windows.add(episode("FRANCE", 0.0, **{"promises_to/ITALY": 1.0, "promises_kept_to/ITALY": 1.0, "honesty": 1.0}))
    windows.add(episode("ITALY", 0.0))
    metrics = windows.metrics()
    check(metrics)
    assert {name: value for name, value in metrics.items() if "partner=" in name} == {
        "entente_country_promises_kept{country=FRANCE,partner=ITALY}": 0.5,
        "entente_country_allied{country=FRANCE,partner=ITALY}": 0.0,
    }


def test_a_checkpoint_keeps_what_pairs_did_and_one_without_it_is_read() -> None:
    windows = RoleWindows(WITH_PRESS)
    windows.add(episode("FRANCE", 0.0, **PROMISED))
    windows.add(episode("FRANCE", 0.0, block="b1"))
    state = json.loads(json.dumps(windows.state()))
    restored = RoleWindows(WITH_PRESS)
    restored.load_state(state)
    assert restored.metrics() == windows.metrics()
    assert restored.facts() == windows.facts()
    before = {role: [row[: 3 + len(WITH_PRESS.trained)] for row in rows] for role, rows in state.items()}
    restored.load_state(before)
    assert [fact.block for fact in restored.facts()["FRANCE"]] == ["b0", "b1"]
    assert not any("partner=" in name for name in restored.metrics())
    [row, _] = state["FRANCE"]
    for wrong in ([*row, {}], [*row[:-1], 3], [*row[:-1], {"promises_to/ITALY": "many"}]):
        with pytest.raises(ValueError, match="fact"):
            restored.load_state({"FRANCE": [wrong]})


def test_rows_without_names_may_lack_a_measure_that_came_later() -> None:
    names = [measure.name for measure in WITH_PRESS.trained]
    values = [float(place) for place in range(len(names))]
    earlier = [value for name, value in zip(names, values, strict=True) if name != "partners_promises"]
    for more in ([], ["b1"], ["b1", PROMISED]):
        windows = RoleWindows(WITH_PRESS)
        windows.load_state({"FRANCE": [[0.5, *earlier, 12.0, *more]]})
        [fact] = windows.facts()["FRANCE"]
        assert fact.values == dict(zip(names, values, strict=True)) | {"partners_promises": 0.0}
        assert (fact.reward, fact.phases, fact.block) == (0.5, 12.0, "b1" if more else "")


def test_rows_with_names_are_read_by_them() -> None:
    stored = RoleWindows(WITH_PRESS)
    stored.add(episode("FRANCE", 0.5, "b2", promises=3.0, honesty=1.0, phases=7, **PROMISED))
    measures = ["gone", *reversed(stored.measures)]
    measures.remove("letters")
    [[reward, *values, phases, block, pairs]] = stored.state()["FRANCE"]
    by_name = dict(zip(stored.measures, values, strict=True)) | {"gone": 9.0}
    restored = RoleWindows(WITH_PRESS)
    row = [reward, *(by_name[name] for name in measures), phases, block, pairs]
    restored.load_state({"FRANCE": [row]}, measures)
    assert restored.facts() == stored.facts()
    with pytest.raises(ValueError, match="an episode has"):
        restored.load_state({"FRANCE": [row]}, measures[1:])


def test_games_without_press_have_the_rows_that_they_had() -> None:
    windows = RoleWindows(DIPLOMACY)
    windows.add(episode("FRANCE", 0.5, **PROMISED))
    assert windows.state() == {"FRANCE": [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, "b0"]]}
