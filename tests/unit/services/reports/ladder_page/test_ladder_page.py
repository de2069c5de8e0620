"""The page of a ladder: everything on it is text, in a table, and in the file itself."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from services.reports.ladder_page.charts import Mark, interval_chart, nice_ticks
from services.reports.ladder_page.ladder_page import ladder_page
from tests.ladder_documents import EVIL, document, ladder_row


class Elements(HTMLParser):
    """All tags with their attributes, and the visible text of each table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[str] = []
        self._in_table = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self._in_table = True
            self.tables.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_table = self._in_table and tag != "table"

    def handle_data(self, data: str) -> None:
        if self._in_table:
            self.tables[-1] += f"{data} "


@pytest.mark.parametrize("rated", [True, False])
def test_the_page_needs_nothing_but_itself(rated: bool) -> None:
    text = ladder_page(document(rated=rated))
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|//[a-z]+\.|url\((?!#)|@import", text)
    for tag, attributes in Elements(text).tags:
        assert tag not in {"img", "iframe", "object", "embed", "video", "audio", "source"}
        assert "src" not in attributes
        assert tag != "link" or attributes == {"rel": "icon", "href": "data:,"}


def test_names_are_text_and_never_markup() -> None:
    text = ladder_page(document(command=f"entente ladder '{EVIL}'", commit=EVIL, against=EVIL, until_year=EVIL))
    assert EVIL not in text
    assert html.escape(EVIL) in text
    assert not any(tag == "img" for tag, _ in Elements(text).tags)


def test_every_drawing_has_an_alternative_text_and_a_table() -> None:
    found = Elements(ladder_page(document()))
    drawings = [attributes for _, attributes in found.tags if attributes.get("role") == "img"]
    assert len(drawings) == sum(tag == "figure" for tag, _ in found.tags) == 2
    assert "greedy 1517 [1477, 1557]" in str(drawings[0]["aria-label"])
    assert "DipNet SL, published solo 74.8 %, most SC, no solo 9.2 %" in str(drawings[1]["aria-label"])
    ratings, _, ends = found.tables[:3]
    assert "greedy 1517 [1477, 1557]" in ratings
    assert "random 1000 (fixed)" in ratings
    assert "greedy 20.0 % 10.0 % 60.0 % 10.0 %" in " ".join(ends.split())
    assert "DipNet SL, published 74.8 % 9.2 % – –" in " ".join(ends.split())


def test_the_table_has_every_figure_above_its_interval() -> None:
    table = " ".join(Elements(ladder_page(document())).tables[1].split())
    assert "Player Rating Solos Most SC Leads Split Survives Squares Centres Games" in table
    assert "1 greedy 1517 [1477, 1557] 20.0 % [16, 22] 10.0 % [8, 11] 30.0 % [24, 33] 0.275 [0.220, 0.303]" in table
    assert "90.0 % [72, 99] 0.250 [0.200, 0.275] 6.50 [5.20, 7.15] 140" in table
    assert "DipNet SL published – 74.8 % 9.2 % 84.0 % – – – – 950" in table
    assert "Glick published, not comparable – – – 80.0 % – – – – –" in table


def test_neighbours_are_named_with_how_they_were_tested() -> None:
    text = ladder_page(document())
    assert "<li>greedy is above" in text
    assert f"<li>{html.escape(EVIL)} and random are not significantly different</li>" in text
    assert "Tested on the finishing places at the same tables" in text
    assert "squared centres in the same games" in ladder_page(
        document(rated=False, neighbours=document()["neighbours"])
    )


def test_without_ratings_the_squares_are_drawn() -> None:
    text = ladder_page(document(rated=False))
    assert "<h2>Sum of squares</h2>" in text
    assert "<h2>Ratings</h2>" not in text
    assert "Rating" not in Elements(text).tables[1]
    assert "0.250 [0.200, 0.275]" in text


def test_a_ladder_of_one_player_without_published_figures_has_a_page() -> None:
    row = ladder_row(1, "random", None, sum_of_squares_ci95=None)
    text = ladder_page(document(rated=False, ladder=[row], published=[], neighbours=[]))
    assert "Ladder of 1 player against six dumbbot" in text
    assert "Published figures" not in text
    assert "Neighbours" not in text


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (956.3, 1954.9), (0.012, 0.0431), (5.0, 5.0), (0.0, 0.0)])
def test_ticks_are_round_and_hold_all_values(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low <= high <= ticks[-1]
    assert 2 <= len(ticks) <= 9
    steps = {round(after - before, 9) for before, after in pairwise(ticks)}
    assert len(steps) == 1


def test_marks_are_placed_along_the_axis() -> None:
    chart = interval_chart([Mark("a", 1000.0, None, ""), Mark("b", 1500.0, (1250.0, 2000.0), "")], "said")
    assert '<i class="dot" style="left:0.00%">' in chart
    assert '<i class="whisker" style="left:25.00%;width:75.00%">' in chart
    assert '<i class="dot" style="left:50.00%">' in chart
    assert "1200</span>" in chart
