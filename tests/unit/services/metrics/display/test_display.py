from __future__ import annotations

import io
import subprocess
import sys
from contextlib import suppress

import pytest
from rich.console import Console

from grpo_core.types import RoleMeasures
from services.metrics.display.display import Display
from services.metrics.display.layout import DASH, DisplaySnapshot, DisplayState, duration, plain_line, render, sparkline
from services.metrics.rolling_windows import RoleSummary
from tests.measured import CHAIRS, DIPLOMACY, TOPICS

SHOW_CURSOR = "\x1b[?25h"
HIDE_CURSOR = "\x1b[?25l"


def summary(centers: float) -> RoleSummary:
    values = {"centers": centers, "win_rate": 0.0, "top_rate": 0.25, "survival_rate": 0.875}
    return RoleSummary(8, 1.5, 0.5, 12.0, values)


def snapshot(update: int, **centers: float | None) -> DisplaySnapshot:
    countries = {name: None if value is None else summary(value) for name, value in centers.items()}
    return DisplaySnapshot(
        update, games=update * 56, episodes=update * 56, roles=countries, measured=DIPLOMACY, loss=0.0123
    )


def drawn(state: DisplayState, now: float, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(render(state, now, width))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_update_without_a_terminal_is_one_line() -> None:
    out = io.StringIO()
    with Display(10, console=Console(file=out, width=80)) as display:
        display.stage("training", total=56)
        display.advance(56)
        display.update(snapshot(1, FRANCE=4.25, ITALY=None))
        display.log("checkpoint 1 [written]")
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("training (0/56)")
    assert "update 1/10 | games 56 | centres 4.25 | FRA 4.2 | reward 1.50 | loss 0.0123" in lines[1]
    assert lines[2].endswith("checkpoint 1 [written]")
    assert "\x1b" not in out.getvalue()


def test_long_stage_without_a_terminal_writes_a_line_every_half_minute() -> None:
    out, now = io.StringIO(), 0.0
    with Display(10, console=Console(file=out, width=80), clock=lambda: now) as display:
        display.stage("imitating 72,858 decisions", total=1707)
        for second in range(100):
            now = float(second)
            display.advance(10)
    lines = out.getvalue().splitlines()
    assert [line.partition(" ")[2] for line in lines] == [
        f"imitating 72,858 decisions ({done}/1,707)" for done in ("0", "310", "610", "910")
    ]


def test_a_log_on_a_full_disk_does_not_end_the_run() -> None:
    ended = False
    with suppress(OSError), open("/dev/full", "w") as out:  # closing it fails once more
        with Display(10, console=Console(file=out, width=80)) as display:
            display.log("lost")
            display.update(snapshot(1, FRANCE=4.0))
        ended = True
    assert ended


def test_foreign_text_reaches_a_terminal_as_one_printable_line() -> None:
    out = io.StringIO()
    with Display(10, console=Console(file=out, width=80)) as display:
        display.log("remote/\x1b]0;title\x07x[/red] died:\n\x1b[2Jcleared \u202eback")
        display.stage("playing \x1b[31mred [bold]")
    assert [line.partition(" ")[2] for line in out.getvalue().splitlines()] == [
        "remote/x[/red] died: cleared back", "playing red [bold]",
    ]  # fmt: skip


def test_ctrl_c_restores_the_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=40)

    def interrupted_run() -> None:
        with Display(10, console=console) as display:
            display.update(snapshot(1, FRANCE=4.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_run()
    assert HIDE_CURSOR in out.getvalue()
    assert out.getvalue().rindex(SHOW_CURSOR) > out.getvalue().rindex(HIDE_CURSOR)


def test_disabled_display_writes_plain_lines_on_a_terminal() -> None:
    out = io.StringIO()
    with Display(10, enabled=False, console=Console(file=out, force_terminal=True, width=100)) as display:
        display.update(snapshot(1, FRANCE=4.0))
    assert HIDE_CURSOR not in out.getvalue()
    assert "update 1/10" in out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_table_has_every_country_at_any_width(width: int) -> None:
    state = DisplayState(10, started=0.0)
    state.add(snapshot(1, FRANCE=4.0, TURKEY=None), now=1.0)
    state.add(snapshot(2, FRANCE=5.5, TURKEY=None), now=2.0)
    text = drawn(state, 2.0, width)
    assert "France" in text
    assert "5.50" in text
    assert "+1.50" in text
    assert "Turkey" in text
    assert max(map(len, text.splitlines())) <= width


def test_a_run_goes_on_when_the_reader_of_its_lines_has_ended() -> None:
    script = """
import sys
from services.metrics.display.display import Display
with Display(1) as display:
    sys.stdin.read()
    for number in range(3):
        display.stage(f"stopping: saving a checkpoint {number}")
    print("saved", file=sys.stderr)
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as run:
        assert run.stdout is not None
        run.stdout.close()
        run.stdout = None
        assert run.communicate(timeout=60.0)[1] == "saved\n"
    assert run.returncode == 0


def test_change_is_measured_from_the_given_start() -> None:
    state = DisplayState(10, started=0.0)
    state.add(DisplaySnapshot(5, 1, 1, {"FRANCE": summary(5.0)}, DIPLOMACY, start_values={"FRANCE": 3.0}), now=1.0)
    assert "+2.00" in drawn(state, 1.0, 120)


def test_time_left_follows_the_pace_and_needs_two_updates() -> None:
    state = DisplayState(10, started=0.0)
    state.add(snapshot(4, FRANCE=4.0), now=100.0)
    assert state.seconds_left(100.0) is None
    state.add(snapshot(5, FRANCE=4.0), now=110.0)
    assert state.seconds_left(110.0) == pytest.approx(50.0)
    assert state.seconds_left(113.0) == pytest.approx(47.0)
    assert state.seconds_left(1000.0) == 0.0


def test_sparklines_and_durations_have_fixed_formats() -> None:
    assert sparkline([0, 1, 2, 9], 0, 2) == "▁▅██"
    assert sparkline([3, 3], 3, 3) == "▁▁"
    assert [duration(value) for value in (None, 0, 61, 3723)] == [DASH, "0:00", "1:01", "1:02:03"]


def shown(measured: RoleMeasures, values: dict[str, dict[str, float]], width: int) -> tuple[str, str]:
    """The table and the plain line of another world."""
    roles = {role: RoleSummary(8, 1.5, 0.5, 3.0, found) for role, found in values.items()}
    state = DisplayState(10, started=0.0)
    state.add(DisplaySnapshot(1, 8, 8, roles, measured), now=1.0)
    return drawn(state, 1.0, width), plain_line(state, 1.0)


def test_diplomacys_table_has_its_columns_in_their_order() -> None:
    state = DisplayState(10, started=0.0)
    state.add(snapshot(1, FRANCE=4.4), now=1.0)
    wide, narrow = drawn(state, 1.0, 120), drawn(state, 1.0, 80)
    columns = ["country", "centres", "change", "course", "reward", "solos", "leads", "survives", "episodes"]
    assert next(line for line in wide.splitlines() if "country" in line).strip("│ ").split() == columns
    row = next(line for line in wide.splitlines() if "France" in line).strip("│ ").split()
    assert row == ["France", "4.40", "████", "+0.00", "▁", "1.50", "0%", "25%", "88%", "8"]
    assert "leads" not in narrow
    assert "survives" in narrow


def test_another_worlds_table_has_its_roles_and_measures() -> None:
    values = {
        name: {"chips": chips, "showdown_rate": 0.5, "bet_rate": 0.25} for name, chips in (("A", -0.5), ("B", 4.0))
    }
    table, line = shown(CHAIRS, values, 120)
    header = next(text for text in table.splitlines() if "chair" in text).strip("│ ").split()
    assert header == ["chair", "chips", "change", "course", "reward", "showdowns", "bets", "episodes"]
    full = next(text for text in table.splitlines() if " B " in text)
    assert full.count("█") - 1 == 18  # and the highest mark of its course
    assert "chips 1.75 | A -0.50 B 4.00 | reward 1.50" in line


def test_a_share_is_shown_in_percent_and_roles_that_begin_alike_by_their_names() -> None:
    alike = RoleMeasures("topic", ("two_steps", "two_digits"), TOPICS.measures)
    table, line = shown(alike, {"two_steps": {"solved": 0.25}, "two_digits": {"solved": 1.0}}, 100)
    assert "solved 62% | two_steps 25% two_digits 100% |" in line
    assert "two_digits" in table
