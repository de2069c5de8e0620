"""One offline page of a ladder, made from the document that ``entente ladder --json`` writes."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from services.reports.colors import country_styles
from services.reports.ladder_page.charts import Bar, Mark, interval_chart, share_chart
from services.reports.ladder_page.figures import heading, interval_text, rating_text, value_text
from services.reports.ladder_page.tables import boxed, definitions_table, ladder_table, line, sources_table
from services.reports.page import asset, page

_ENDS = ("solo", "most SC, no solo", "survives behind", "defeated")


def ladder_page(document: Mapping[str, Any]) -> str:
    """The whole page: a chart and a table for everything, without a script and without the network."""
    styles = asset("common.css") + country_styles() + asset("ladder_page/ladder_page.css")
    rows = document["ladder"]
    players = "1 player" if len(rows) == 1 else f"{len(rows)} players"
    title = f"Ladder of {players} against six {document['against']}"
    parts = [
        f"<header><h1>{html.escape(title)}</h1><p class='soft'>{html.escape(_games(document))}</p></header>",
        _order_section(document),
        "<section><h2>Every figure</h2>"
        "<p>The same games for all players. Below a figure is its 95 % interval; published figures come without.</p>"
        f"{ladder_table(document)}</section>",
        _ends_section(document),
        f"<section><h2>What the columns are</h2>{definitions_table(document)}</section>",
    ]
    if document["published"]:
        parts.append(f"<section><h2>Published figures</h2>{sources_table(document)}</section>")
    parts.append(
        "<section><h2>Play it again</h2><p>The same command plays the same games where the same players are.</p>"
        f'<pre class="card">{html.escape(document["command"])}</pre>'
        f'<p class="soft">Commit {html.escape(document["commit"])}.</p></section>'
    )
    return page(title, f"<main>{''.join(parts)}</main>", styles=styles, data=document, scripts=[])


def _games(document: Mapping[str, Any]) -> str:
    games = document["ladder"][0]["games"]
    mixed = f", {document['mixed_games']} at mixed tables" if document["mixed_games"] else ""
    letters = " with letters" if document.get("press_rounds") else ""
    return f"{games} games{letters} for each player{mixed}, to {document['until_year']}, seed {document['seed']}"


def _order_section(document: Mapping[str, Any]) -> str:
    """What orders the players, as a chart with its table, and which neighbours are alike."""
    rows, rated = document["ladder"], bool(document["mixed_games"])
    if rated:
        name, unit, note = "Ratings", "points", f"{document['rating_scale']} Lines are 95 % intervals."
        marks = [Mark(row["checkpoint"], row["rating"], _pair(row["rating_ci95"]), rating_text(row)) for row in rows]
    else:
        name, unit = "Sum of squares", "share of the squared centres"
        note = "There are no mixed tables, so the players are in the order of this. Lines are 95 % intervals."
        marks = [
            Mark(row["checkpoint"], row["sum_of_squares"], _pair(row["sum_of_squares_ci95"]), _squares(row))
            for row in rows
        ]
    said = f"{name} with 95 % intervals: " + "; ".join(f"{mark.name} {mark.text}" for mark in marks)
    table = boxed(("Player", heading(unit)), [line(mark.name, (mark.text,)) for mark in marks], name)
    alike = "".join(f"<li>{html.escape(each['text'])}</li>" for each in document["neighbours"])
    beside = f'<h3>Neighbours</h3><ul class="neighbours">{alike}</ul>{_tested(document)}' if alike else ""
    return (
        f"<section><h2>{name}</h2><p>{html.escape(note)}</p>"
        f'<figure class="card">{interval_chart(marks, said)}<details><summary>Table</summary>{table}</details></figure>'
        f"{beside}</section>"
    )


def _tested(document: Mapping[str, Any]) -> str:
    what = "finishing places at the same tables" if document["mixed_games"] else "squared centres in the same games"
    return (
        f'<p class="soft">Tested on the {what}, so two players can differ although their intervals overlap. p-values '
        "are corrected for all pairs (Holm); significant is at most 0.05.</p>"
    )


def _ends_section(document: Mapping[str, Any]) -> str:
    """How games ended for each player, as bars with their table."""
    published = [row for row in document["published"] if row["comparable"]]
    bars = [Bar(row["checkpoint"], _ends(row)) for row in document["ladder"]]
    bars += [Bar(f"{row['checkpoint']}, published", _ends(row)) for row in published]
    texts = [[value_text(share, "share") for share in bar.shares] for bar in bars]
    said = "How games ended: " + "; ".join(
        f"{bar.name} " + ", ".join(f"{end} {text}" for end, text in zip(_ENDS, shares, strict=False))
        for bar, shares in zip(bars, texts, strict=True)
    )
    rows = [
        line(bar.name, [*shares, *["–"] * (len(_ENDS) - len(shares))]) for bar, shares in zip(bars, texts, strict=True)
    ]
    table = boxed(("Player", *(heading(end) for end in _ENDS)), rows, "How games ended")
    rest = " What is blank is not entered here." if published else ""
    return (
        f"<section><h2>How games ended</h2><p>DipNet's four columns, ties for the most centres included.{rest}</p>"
        f'<figure class="card">{share_chart(bars, _ENDS, said)}'
        f"<details><summary>Table</summary>{table}</details></figure></section>"
    )


def _ends(row: Mapping[str, Any]) -> tuple[float, ...]:
    """The shares of ``_ENDS``; published figures have the first two alone."""
    solo, most = row["solo_rate"] or 0.0, row["lead_without_solo_rate"] or 0.0
    survived = row["survival_rate"]
    return (solo, most) if survived is None else (solo, most, max(0.0, survived - solo - most), 1.0 - survived)


def _squares(row: Mapping[str, Any]) -> str:
    interval = interval_text(row["sum_of_squares_ci95"], "mean", 3)
    return f"{value_text(row['sum_of_squares'], 'mean', 3)} {interval}".rstrip()


def _pair(interval: Sequence[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0], interval[1])
