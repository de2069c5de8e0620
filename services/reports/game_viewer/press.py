"""What became of a game's letters, as its page shows it: promises by phase and pair, and alliances by year."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from grpo_core.errors import EntenteError


class PressStory(Protocol):
    """What a world tells of one saved game."""

    @property
    def promises(self) -> Mapping[str, Sequence[tuple[str, str, str, str]]]:
        """Movement phase -> giver, partner, what, and "kept", "broken" or "" if nothing could break it."""
        ...

    @property
    def pairs(self) -> Mapping[tuple[str, str], tuple[int, int, int, int]]:
        """Giver and partner -> promises kept and broken, effective supports, and phases in which both had a unit."""
        ...

    @property
    def alliances(self) -> Mapping[int, Sequence[str]]:
        """Year -> the names of the alliances that stood at its end."""
        ...

    @property
    def trust(self) -> Mapping[int, Mapping[tuple[str, str], tuple[int, int]]]:
        """Year -> giver and partner -> promises kept and broken by its end; pairs without are left out."""
        ...

    @property
    def meanings(self) -> Mapping[str, Mapping[tuple[str, str], str]]:
        """Movement phase -> sender and line of a letter in a compact language -> the same in plain English."""
        ...


# (document of a saved game, its name for errors) -> its story; None for a game without letters.
TellPress = Callable[[Mapping[str, Any], str], PressStory | None]


def short_name(saved_game: Path) -> str:
    """A file's name for errors on pages, which are passed on: with its folder, without the machine's other folders."""
    return f"{saved_game.parent.name}/{saved_game.name}"


def told_press(document: Mapping[str, Any], tell: TellPress | None, name: str) -> tuple[dict[str, Any], str]:
    """What the page's script shows of the press, and a line that says why a damaged game's is left out."""
    if tell is None:
        return {}, ""
    try:
        story = tell(document, name)
    except EntenteError as error:
        return {}, f"Its promises cannot be told: {error}"
    if story is None:
        return {}, ""
    return {
        "promises": {phase: [list(told) for told in each] for phase, each in story.promises.items()},
        "pairs": [
            [giver, partner, kept, kept + broken] for (giver, partner), (kept, broken, *_) in story.pairs.items()
        ],
        "alliances": [[year, list(names)] for year, names in story.alliances.items()],
        "trust": _trust(story),
        "meanings": {
            phase: [[sender, line, plain] for (sender, line), plain in each.items()]
            for phase, each in story.meanings.items()
        },
    }, ""


def _trust(story: PressStory) -> dict[str, Any]:
    """The years, and for each pair with promises how many it had kept, and of how many, by the end of each."""
    years = list(story.trust)
    pairs = dict.fromkeys(pair for year in years for pair in story.trust[year])
    counts = {pair: [story.trust[year].get(pair, (0, 0)) for year in years] for pair in sorted(pairs)}
    rows = [[*pair, [[kept, kept + broken] for kept, broken in each]] for pair, each in counts.items()]
    return {"years": years, "pairs": rows}
