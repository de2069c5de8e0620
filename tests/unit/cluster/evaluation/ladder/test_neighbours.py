"""Neighbours are told apart by the measure that orders them, in its own direction."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.evaluation.ladder.neighbours import neighbour_text, neighbours


def difference(player: str, compared_with: str, value: float, *, significant: bool, measure: str) -> dict[str, Any]:
    ends = [value - 0.1, value + 0.3]
    row = {"player": player, "compared_with": compared_with, "against": "mixed tables", "measure": measure}
    p = 0.0004 if significant else 0.4
    return row | {
        "difference": value,
        "difference_ci95": ends,
        "p_value_corrected": p,
        "significant": significant,
    }


@pytest.mark.parametrize(
    ("measure", "difference_of_b", "significant", "verdict"),
    [
        ("mean_rank", 1.0, True, "clear"),  # b has the later places, so a, which is above it, is better
        ("mean_rank", -1.0, True, "reversed"),
        ("mean_rank", 1.0, False, "not significant"),
        ("sum_of_squares", -1.0, True, "clear"),
        ("sum_of_squares", 1.0, True, "reversed"),
    ],
)
def test_the_verdict_has_the_direction_of_the_measure(
    measure: str, difference_of_b: float, significant: bool, verdict: str
) -> None:
    (row,) = neighbours(["a", "b"], [difference("b", "a", difference_of_b, significant=significant, measure=measure)])
    assert (row["higher"], row["lower"], row["verdict"]) == ("a", "b", verdict)
    assert row["difference"] == -difference_of_b
    assert row["difference_ci95"] == pytest.approx([-difference_of_b - 0.3, -difference_of_b + 0.1])


def test_each_player_is_compared_with_the_next_one_below() -> None:
    rows = [
        difference("b", "a", -1.0, significant=True, measure="mean_rank"),
        difference("c", "a", -0.5, significant=False, measure="mean_rank"),
        difference("c", "b", 0.5, significant=False, measure="mean_rank"),
    ]
    first, second = neighbours(["b", "c", "a"], rows)
    assert (first["higher"], first["lower"], first["difference"]) == ("b", "c", -0.5)
    assert (second["higher"], second["lower"], second["difference"]) == ("c", "a", -0.5)
    assert neighbours(["a"], []) == []


def test_a_line_says_plainly_what_is_known() -> None:
    said = {
        verdict: neighbour_text(
            {"higher": "a", "lower": "b", "measure": "mean_rank", "verdict": verdict, "p_value_corrected": p}
        )
        for verdict, p in (("clear", 0.0001), ("not significant", 0.3), ("reversed", 0.0123))
    }
    assert said["clear"] == "a is above b (corrected p < 0.001)"
    assert said["not significant"] == "a and b are not significantly different"
    assert said["reversed"] == "a and b: the finishing places say the opposite (corrected p = 0.012)"
