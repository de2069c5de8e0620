"""The intervals beside the countries' courses."""

from __future__ import annotations

import pytest

from cluster.actors.learner_metrics import country_intervals
from services.metrics.catalogue import check
from services.metrics.rolling_windows import EpisodeFacts
from services.reports.statistics import student_t_quantile


def fact(centers: float, *, win: float = 0.0, survived: float = 1.0) -> EpisodeFacts:
    return EpisodeFacts(reward=0.0, centers=centers, win=win, top=0.0, survived=survived, phases=10.0)


def test_students_t_for_centres_and_wilsons_for_rates() -> None:
    window = [fact(float(number % 3), win=float(number < 20)) for number in range(100)]
    found = country_intervals({"FRANCE": window})
    check(found)
    assert len(found) == 8
    centers = [entry.centers for entry in window]
    mean = sum(centers) / 100
    half = student_t_quantile(0.975, 99) * (sum((value - mean) ** 2 for value in centers) / 99 / 100) ** 0.5
    assert found["entente_country_centers_low{country=FRANCE}"] == pytest.approx(mean - half)
    assert found["entente_country_centers_high{country=FRANCE}"] == pytest.approx(mean + half)
    # 20 of 100: Newcombe (Statistics in Medicine 17, 1998) and every table have [0.133, 0.289].
    assert found["entente_country_win_rate_low{country=FRANCE}"] == pytest.approx(0.1334, abs=1e-4)
    assert found["entente_country_win_rate_high{country=FRANCE}"] == pytest.approx(0.2888, abs=1e-4)
    assert found["entente_country_survival_rate_high{country=FRANCE}"] == 1.0


def test_one_episode_says_something_of_rates_and_nothing_of_a_mean() -> None:
    found = country_intervals({"ITALY": [fact(3.0)]})
    assert not [name for name in found if "centers" in name]
    assert found["entente_country_win_rate_low{country=ITALY}"] == 0.0
    assert found["entente_country_win_rate_high{country=ITALY}"] > 0.7
    assert country_intervals({}) == {}
