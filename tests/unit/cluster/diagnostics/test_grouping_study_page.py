"""The table and the page of the grouping study."""

import io
import re

import pytest
from rich.console import Console

from cluster.diagnostics.grouping_study_page import show, write_study_page

MEASURES = ("bias", "slope", "cosine", "noise", "sign_agreement", "wrong_direction", "effective_samples")


def row(returns, way, value, drowned=0.0):
    interval = {"value": value, "low": None if value is None else value - 0.25, "high": None if value is None else 8.0}
    return {"returns": returns, "tokens": "sum", "way": way, "drowned": drowned, **dict.fromkeys(MEASURES, interval)}


STUDY = {
    "commit": "abc1234",
    "batches": 4,
    "episodes_a_batch": 112,
    "episodes": 448,
    "turns": 4321,
    "rows": [row("per_phase", "country+phase", 1.5), row("per_phase", "batch", 1.0), row("episode", "none", None)],
}


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_has_every_method_and_interval_even_in_narrow_terminals(width):
    out = io.StringIO()
    show(STUDY, Console(file=out, width=width))
    text = out.getvalue()
    assert "448 episodes, 4,321 turns, 4 batches of 112" in " ".join(text.split())
    assert "country + phase" in text
    assert "batch mean" in text
    assert text.count("1.50") == 5
    assert text.count("1.25..8.00") == 5
    assert text.count("drowned") == 5
    assert max(map(len, text.splitlines())) <= width


def test_the_page_omits_values_below_the_noise(tmp_path):
    page = write_study_page(STUDY, tmp_path / "study.html").read_text()
    assert "country + phase" in page
    assert "commit abc1234" in page
    # Every panel has the series, and no series has a point.
    assert len(re.findall(r'"name":"one return an episode","showlegend":\w+,"x":\[\]', page)) == 4


def test_intervals_that_dropped_many_resamples_are_reported():
    def printed(*drowned):
        out = io.StringIO()
        rows = [row("per_phase", f"country+{number}", 1.0, share) for number, share in enumerate(drowned)]
        show({**STUDY, "rows": rows}, Console(file=out, width=80))
        return " ".join(out.getvalue().split())

    assert "left more than" not in printed(0.0, 0.05)
    text = printed(0.0, 0.06, 0.5, 0.2)
    assert "3 of 4 rows left more than 5% of the bootstrap's draws out" in text
    assert "(most: 50%, country + 2)" in text
