import io

from rich.console import Console

from cluster.runs.progress_bars import progress_bars


def test_a_log_gets_a_line_for_every_tenth_of_the_work():
    out = io.StringIO()
    with progress_bars(Console(file=out, width=100)) as stage:
        advance = stage("playing", 25)
        for _ in range(25):
            advance(1)
    lines = out.getvalue().splitlines()
    assert lines[0] == "playing: 3 of 25"
    assert lines[-1] == "playing: 25 of 25"
    assert len(lines) == 10


def test_a_terminal_gets_progress_bars():
    out = io.StringIO()
    with progress_bars(Console(file=out, width=100, force_terminal=True)) as stage:
        stage("playing", 2)(2)
    assert "playing" in out.getvalue()
    assert "2/2" in out.getvalue()
