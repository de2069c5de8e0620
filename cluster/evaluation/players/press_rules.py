"""The rules of letters in games that are not a run's own: those that the policies in them were trained with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cluster.errors import RunError
from cluster.evaluation.players.members import member_name
from cluster.runs.folder import has_sampling, sampling_of
from grpo_core.errors import one_line
from opponents.champion.shipped import player_folder
from opponents.player_names import player_name
from services.environments.diplomacy.settings import PRESS_ROUNDS, GameSettings

if TYPE_CHECKING:
    from cluster.configs.schema import Config

_FIELDS = ("press_rounds", "press_public", "press_length", "press_budget")


def press_settings(
    names: Iterable[str], rounds: int | None = None, *, public: bool | None = None
) -> tuple[GameSettings, str | None]:
    """The settings of games with letters between players of these names, and a warning about them, in one line.

    They are those of the first player whose run was trained with letters, else private letters in ``PRESS_ROUNDS``
    rounds; ``rounds`` and ``public`` go first. The warning names the rules, and the players that were trained with
    other ones; None if there are none. Names of players that do not exist are left out: who opens them says so.

    Raises RunError or ConfigError if a run's config cannot be used.
    """
    trained = {name: own for name in dict.fromkeys(names) if (own := _trained_with(name)) is not None}
    rules = next(iter(trained.values()), GameSettings(press_rounds=PRESS_ROUNDS))
    given = {"press_rounds": rounds, "press_public": public}
    rules = rules.model_copy(update={field: value for field, value in given.items() if value is not None})
    others = {name: own for name, own in trained.items() if own != rules}
    if not others:
        return rules, None
    told = "; ".join(f"{one_line(name, 120)} was trained with {_in_words(own)}" for name, own in others.items())
    return rules, f"these games have {_in_words(rules)} before each movement phase; {told}"


def chosen_press(
    names: Iterable[str], *, press: bool, rounds: int | None, public: bool | None
) -> tuple[GameSettings | None, str | None]:
    """``press_settings`` where letters are wanted; neither where they are not.

    Raises RunError too, for rules of letters without letters.
    """
    if press:
        return press_settings(names, rounds, public=public)
    if rounds is not None or public is not None:
        raise RunError("rounds of letters and public letters are of games with press: add --press, or press=True")
    return None, None


def _trained_with(name: str) -> GameSettings | None:
    """The rules of letters in the training games of a saved policy; None for other players, and without letters."""
    config = _config_of(player_name(name).saved)
    if config is None or not isinstance(config.game, GameSettings) or not config.game.press_rounds:
        return None
    rules: dict[str, Any] = {field: getattr(config.game, field) for field in _FIELDS}
    return GameSettings(**rules)


def _config_of(saved: str) -> Config | None:
    member = member_name(saved)
    folder = player_folder(saved) if member is None else member[0]
    return sampling_of(folder) if folder.is_dir() and has_sampling(folder) else None


def _in_words(rules: GameSettings) -> str:
    rounds = "1 round" if rules.press_rounds == 1 else f"{rules.press_rounds} rounds"
    kind = "private and public" if rules.press_public else "private"
    budget = "" if rules.press_budget is None else f", {rules.press_budget} of a power in a game"
    return f"{rounds} of {kind} letters of at most {rules.press_length} characters{budget}"
