"""Published figures stand only where their definitions agree with ours, and say where they are from."""

from __future__ import annotations

import pytest

from cluster.evaluation.ladder.columns import NAMES, columns
from cluster.evaluation.ladder.published import PUBLISHED, published_rows
from services.environments.diplomacy.ending import TO_THE_END, Ending
from services.environments.diplomacy.measures.definitions import EVALUATED


def test_figures_are_put_in_the_columns_whose_definitions_agree() -> None:
    dipnet, glick = published_rows("dumbbot", TO_THE_END)
    assert {name: dipnet[name] for name in NAMES if dipnet[name] is not None} == {
        "solo_rate": 0.748,
        "lead_without_solo_rate": 0.092,
        "lead_rate": 0.84,
    }
    assert dipnet["games"] == 950
    assert {name: glick[name] for name in NAMES if glick[name] is not None} == {"lead_rate": 0.8}
    assert all(row[f"{name}_ci95"] is None for row in (dipnet, glick) for name in NAMES)


def test_dipnets_figures_are_comparable_with_games_to_the_end_alone() -> None:
    assert published_rows("dumbbot", TO_THE_END)[0]["comparable"]
    shorter = published_rows("dumbbot", Ending(1908))[0]
    assert not shorter["comparable"]
    assert shorter["why_not"].endswith("these to 1908")
    assert not published_rows("dumbbot", Ending(1935))[0]["comparable"]  # without a draw after quiet years


@pytest.mark.parametrize("ending", [TO_THE_END, Ending(1905)])
def test_a_simplified_dumbbot_is_never_comparable(ending: Ending) -> None:
    glick = published_rows("dumbbot", ending)[1]
    assert not glick["comparable"]
    assert "simplified DumbBot" in glick["why_not"]


@pytest.mark.parametrize("anchor", ["random", "greedy", "runs/demo"])
def test_figures_against_other_anchors_are_left_out(anchor: str) -> None:
    assert published_rows(anchor, TO_THE_END) == []


def test_every_figure_is_a_share_with_a_source_and_a_known_measure() -> None:
    for each in PUBLISHED:
        assert each.source
        assert each.definition
        assert set(each.figures) <= set(NAMES)
        assert all(0 < value <= 1 for value in each.figures.values())
        sum_of_both = each.figures.get("solo_rate", 0) + each.figures.get("lead_without_solo_rate", 0)
        assert not sum_of_both or each.figures["lead_rate"] == pytest.approx(sum_of_both)


def test_columns_name_others_words_for_the_same_figure() -> None:
    words = {each.measure.row_name: each.published_as for each in columns(EVALUATED)}
    assert tuple(words) == NAMES
    assert words["solo_rate"] == "DipNet's win"
    assert "DipNet's win and most SC together; Glick's win" in words["lead_rate"]
    assert "Meta's score" in words["sum_of_squares"]
    assert words["lead_rate_ties_split"] == words["survival_rate"] == ""
