"""What became of letters in the saved games of a run's last evaluations: the source of charts by pair and by year."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from grpo_core.errors import EntenteError
from services.reports.game_viewer.frames import read_saved_game
from services.reports.game_viewer.press import PressStory, TellPress, short_name
from services.reports.run_report.data import RunData
from services.reports.run_report.games.drawing import AddBar, advance_of
from services.reports.run_report.games.kept import game_files, has_games

MOST_GAMES = 42  # reading one takes up to a second


class RememberedPress:
    """Tells the story of each saved game once: charts and pages ask for the same ones."""

    def __init__(self, tell: TellPress) -> None:
        self._tell = tell
        self._told: dict[str, PressStory | None] = {}

    def __call__(self, document: Mapping[str, Any], name: str) -> PressStory | None:
        """As the ``tell`` that was given; ``name`` tells games of a run apart."""
        if name not in self._told:
            self._told[name] = self._tell(document, name)
        return self._told[name]


def press_stories(run: RunData, tell: TellPress | None, add_bar: AddBar | None = None) -> list[PressStory]:
    """The stories of the games that the last evaluation against each opponent saved; damaged games are left out.

    None of a run whose measures do not count letters.
    """
    if tell is None or not has_games(run) or all(measure.name != "letters" for measure in run.measured.measures):
        return []
    last = {str(row["against"]): str(row.get("label", "")) for row in run.course}
    files = [path for against, label in last.items() for path in game_files(run, label, against)]
    found = []
    advance = advance_of(add_bar, "letters in saved games", min(len(files), MOST_GAMES))
    for path in islice(files, MOST_GAMES):
        try:
            story = tell(read_saved_game(path), short_name(path))
        except EntenteError:  # the table of games says what is wrong with it
            story = None
        if story is not None:
            found.append(story)
        advance(1)
    return found
