"""Games worth a look: the policy's first solo, its largest upset and its worst collapse."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grpo_core.types import role_label
from services.reports.run_report.data import RunData
from services.reports.run_report.games.kept import KeptGame, has_games, kept_games
from services.reports.run_report.table import scrolling

CENTERS_TO_WIN = 18
_ELO = 400.0  # points that are odds of ten to one


@dataclass(frozen=True, slots=True)
class Notable:
    """One row: a saved game, or what is known of a training game, of which most are not saved."""

    title: str
    text: str  # why it is notable; or why there is none
    game: KeptGame | None = None


def notable_games(run: RunData) -> list[Notable]:
    """Return the notable games of a run; empty where neither games were kept nor training games recorded."""
    if not has_games(run):
        return []
    games = kept_games(run)
    kept = [first_solo(games), largest_upset(games, run), worst_collapse(games)] if games else []
    return kept + _of_training(run)


def first_solo(games: Sequence[KeptGame]) -> Notable:
    """The policy's solo after the fewest updates, and of these the one in the fewest phases."""
    title = "First solo"
    solos = [game for game in games if game.centers[-1][game.power] >= CENTERS_TO_WIN]
    if not solos:
        return Notable(title, f"no solo of the policy in the {len(games)} games that were kept")
    found = min(solos, key=lambda game: (game.update, len(game.phases)))
    text = f"{found.centers[-1][found.power]} centres in {found.phases[-1]}, after {found.update} updates"
    return Notable(title, text, found)


def worst_collapse(games: Sequence[KeptGame]) -> Notable:
    """The policy's largest fall in centres from a peak; of equal ones that to the fewest centres."""
    title = "Worst collapse"
    falls = [(_fall(game), game) for game in games]
    (drop, _, text), found = max(falls, key=lambda each: (each[0][0], -each[0][1]))
    if not drop:
        return Notable(title, f"the policy never lost a centre it had in the {len(games)} games that were kept")
    return Notable(title, text, found)


def _fall(game: KeptGame) -> tuple[int, int, str]:
    """The largest fall, the centres left after it, and both in words."""
    own = [centers[game.power] for centers in game.centers]
    peak, worst = 0, (0, own[0], "")
    for place, count in enumerate(own):
        if count > own[peak]:
            peak = place
        if own[peak] - count > worst[0]:
            text = f"from {own[peak]} centres in {game.phases[peak]} to {count} in {game.phases[place]}"
            worst = (own[peak] - count, count, text)
    return worst


def largest_upset(games: Sequence[KeptGame], run: RunData) -> Notable:
    """The game that went most against the ratings: the lower rated side scored more than half.

    A game's score is the share of the six others below the policy, level ones counting half; the score to expect is
    1 / (1 + 10^((anchor - policy) / 400)) at the ratings of that time.
    """
    title = "Largest upset"
    rated = [(surprise, game) for game in games if (surprise := _surprise(game, run)) is not None]
    if not rated:
        return Notable(title, "the ratings of the policy and of its opponents in the kept games are not both known")
    upsets = [(surprise, game) for surprise, game in rated if (surprise[0] > 0.5) != (surprise[1] > 0.5)]
    upsets = [each for each in upsets if each[0][0] != 0.5]
    if not upsets:
        return Notable(title, f"the lower rated side finished above in none of {len(rated)} games")
    (score, expected, ratings), found = max(upsets, key=lambda each: abs(each[0][0] - each[0][1]))
    text = f"scored {score:.0%} where {expected:.0%} was to be expected ({ratings})"
    return Notable(title, text, found)


def _surprise(game: KeptGame, run: RunData) -> tuple[float, float, str] | None:
    """A game's score, the one to expect, and the ratings in words; None where one is not known."""
    policy, anchor = _rating(run, "learner", game.update), _rating(run, f"bot/{game.against}", game.update)
    if policy is None or anchor is None or policy == anchor:
        return None
    end = game.centers[-1]
    others = [count for power, count in end.items() if power != game.power]
    score = sum(1.0 if end[game.power] > count else 0.5 * (end[game.power] == count) for count in others) / len(others)
    expected = 1 / (1 + 10 ** ((anchor - policy) / _ELO))
    return score, expected, f"rated {policy:.0f} against {anchor:.0f}"


def _rating(run: RunData, player: str, update: int) -> float | None:
    """The rating after an update, the newest before it, or the first."""
    xs, ys = run.series(f"entente_rating{{player={player}}}")
    if not ys:
        return None
    return next((y for x, y in zip(reversed(xs), reversed(ys), strict=True) if x <= update), ys[0])


def _of_training(run: RunData) -> list[Notable]:
    """The first solo and the best game of training, from the audit records."""
    found = []
    name = run.measured.main.name
    rows = [
        (audit.version, episode, role, audit.outcomes.get("win_rate", []), audit.outcomes.get(name, []), place)
        for audit in run.audits
        for place, (episode, role) in enumerate(zip(audit.episodes, audit.roles, strict=False))
        if not (place < len(audit.forks) and audit.forks[place])  # those begin elsewhere, maybe near their end
    ]
    solo = next((row for row in rows if row[5] < len(row[3]) and row[3][row[5]]), None)
    if solo is not None:
        found.append(Notable("First solo in training", f"as {role_label(solo[2])} in update {solo[0]}, game {solo[1]}"))
    known = [(value, row) for row in rows if row[5] < len(row[4]) and (value := row[4][row[5]]) is not None]
    if known:
        value, best = max(known, key=lambda each: each[0])
        shown = run.measured.main.shown(value, 0)
        text = f"{shown} {run.measured.main.heading} as {role_label(best[2])} in update {best[0]}, game {best[1]}"
        found.append(Notable("Best game in training", text))
    return found


def notable_table(found: Sequence[Notable], link: Callable[[KeptGame], str]) -> str:
    """Return the table; ``link`` makes a game's page and returns its path, or "" where there is none."""
    if not found:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("", "game", "why"))
    rows = ((each.title, _game(each, link), html.escape(each.text)) for each in found)
    body = "".join(f"<tr><td>{title}</td><td>{game}</td><td>{text}</td></tr>" for title, game, text in rows)
    table = scrolling(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", "Notable games")
    note = (
        "Of the games that evaluations kept, and of whole training games, by their recorded outcomes. In an upset the "
        "lower rated side finished above the other."
    )
    return f'<section id="notable"><h2>Notable games</h2><p class="soft">{note}</p>{table}</section>'


def _game(each: Notable, link: Callable[[KeptGame], str]) -> str:
    if each.game is None:
        return "–"
    name = html.escape(f"{role_label(each.game.power)} against {each.game.against}, {each.game.label}")
    target = link(each.game)
    return f'<a href="{html.escape(target)}">{name}</a>' if target else name
