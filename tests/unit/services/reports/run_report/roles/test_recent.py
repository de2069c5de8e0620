from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from services.reports.run_report.data import RunData, load_run
from services.reports.run_report.roles.recent import last_rewards, recent, recent_charts, recent_note, recent_section
from tests.long_run import long_run
from tests.measured import CHAIRS, DIPLOMACY


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return load_run(long_run(tmp_path_factory.mktemp("long") / "run", 20), DIPLOMACY)


def without(run: RunData, part: str) -> RunData:
    lines = tuple(
        {**line, "metrics": {key: value for key, value in line["metrics"].items() if part not in key}}
        for line in run.lines
    )
    return replace(run, lines=lines)


def test_each_roles_row_is_its_newest_measurement(run: RunData) -> None:
    rows = {row.role: row for row in recent(run)}
    newest = run.lines[-1]["metrics"]
    assert rows["ITALY"].reward == newest["entente_country_reward{country=ITALY}"]
    assert rows["ITALY"].episodes == 100
    assert list(rows) == list(DIPLOMACY.roles)


def test_a_role_without_episodes_has_no_data(run: RunData) -> None:
    text = recent_section(without(run, "country=ITALY"))
    [row] = re.findall(r"<tr><td>Italy</td>.*?</tr>", text)
    assert row.count("no data") == 3 + len(DIPLOMACY.trained)
    assert "nan" not in text.lower().replace("no data", "")
    assert recent_section(without(run, "country=")) == ""


def test_one_episode_has_no_deviation(run: RunData) -> None:
    text = recent_section(without(run, "reward_std"))
    reward = run.lines[-1]["metrics"]["entente_country_reward{country=FRANCE}"]
    assert f'<td>France</td><td class="number">100</td><td class="number">{reward:.3f}</td>' in text
    assert "±" not in text.split("</thead>")[1]


def test_rewards_are_of_the_last_hundred_episodes(run: RunData) -> None:
    mine = [
        reward
        for audit in run.audits
        for role, reward in zip(audit.roles, audit.rewards, strict=True)
        if role == "FRANCE"
    ]
    assert len(mine) == 160
    assert last_rewards(run)["FRANCE"] == mine[-100:]
    [chart] = recent_charts(run)
    [box] = [trace for trace in chart["traces"] if trace["name"] == "France"]
    quartiles = [box[part][0] for part in ("lowerfence", "q1", "median", "q3", "upperfence")]
    assert quartiles == pytest.approx(np.percentile(mine[-100:], [5, 25, 50, 75, 95]))


def test_an_older_run_shows_means_and_deviations(run: RunData) -> None:
    older = replace(run, audits=())
    [chart] = recent_charts(older)
    trace = chart["traces"][0]
    assert trace["y"] == [older.lines[-1]["metrics"]["entente_country_reward{country=AUSTRIA}"]]
    assert trace["error_y"]["array"] == [1.0]


def test_another_world_has_its_own_columns(tmp_path: Path) -> None:
    folder = long_run(tmp_path / "run", 2)
    text = (folder / "metrics.jsonl").read_text().replace("country=FRANCE", "chair=A").replace("_country_", "_chair_")
    (folder / "metrics.jsonl").write_text(text)
    shown = recent_section(load_run(folder, CHAIRS))
    assert re.findall(r"<th[^>]*>([^<]+)<", shown)[4:] == ["chips", "showdowns", "bets"]
    assert '<td>B</td><td class="number">no data</td>' in shown


def test_games_that_began_elsewhere_are_said_to_be_among_them(run: RunData) -> None:
    assert "saved position" not in recent_note(run)
    first, *others = run.audits
    forked = msgspec.structs.replace(first, forks=[True, *[False] * (len(first.episodes) - 1)])
    assert "count too (1 in the whole run)" in recent_note(replace(run, audits=(forked, *others)))
