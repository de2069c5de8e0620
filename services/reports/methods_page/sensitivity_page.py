"""One offline page of a study of settings, made from what ``entente compare sensitivity`` writes."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from services.reports.colors import country_styles
from services.reports.ladder_page.charts import Mark, interval_chart
from services.reports.ladder_page.tables import boxed, line
from services.reports.page import asset, page

Row = Mapping[str, Any]
_CELL, _MARGIN = 14, 46  # of a surface, in pixels
_MOST_SURFACES = 5


def sensitivity_page(document: Row) -> str:
    """The whole page: what matters, the surface over the two settings that do most, and which settings to take."""
    styles = (
        asset("common.css")
        + country_styles()
        + asset("ladder_page/ladder_page.css")
        + asset("methods_page/methods_page.css")
    )
    body = f"<main>{sensitivity_body(document)}</main>"
    return page(_page_title(document), body, styles=styles, data=document, scripts=[])


def sensitivity_body(document: Row) -> str:
    """What the page holds, as HTML in which every text is escaped."""
    study, found = document["study"], document["sensitivity"]
    count = len(found["returns"])
    diverged = f" {document['diverged']} diverged and count as no learning." if document["diverged"] else ""
    title = html.escape(_page_title(document))
    parts = [
        f"<header><h1>{title}</h1><p class='soft'>{count} trials of {study['steps']:,} steps, each with a "
        f"seed of its own.{diverged}</p></header>",
        _recommended(found),
        _importance(found),
        _surfaces(found),
        "<section><h2>Run it again</h2>"
        f'<pre class="card">{html.escape(document["command"])}</pre>'
        f'<p class="soft">Commit {html.escape(document["commit"])}, {html.escape(document["machine"])}.</p></section>',
    ]
    return "".join(parts)


def _page_title(document: Row) -> str:
    return f"Settings of {document['title']} on {document['study']['task']}"


def _recommended(found: Row) -> str:
    rows = (("Plateau", found["recommended"]), ("Best trial", found["best_trial"]))
    names = list(found["recommended"]["settings"])
    table = boxed(
        ("", *names, f"Expected {found['measure']}", "Most neighbours reach"),
        [line(title, (*(_shown(row["settings"][name]) for name in names), _figure(row["expected"]),
                      _figure(row["around"]))) for title, row in rows],
        "Settings to take",
    )  # fmt: skip
    measure = html.escape(found["measure"])
    return (
        "<section><h2>Settings to take</h2><p>The recommended settings lie where a tenth of each range to either side "
        "changes least and is good: four fifths of the neighbours reach at least the last column. The best single "
        f"trial had a {measure} of {_figure(found['best_trial']['return'])}, luck of its seed included.</p>"
        f"{table}</section>"
    )


def _importance(found: Row) -> str:
    last = found["points"][-1]
    rows = sorted(last["importance"], key=lambda row: -row["share"])
    marks = [Mark(row["setting"], row["share"], tuple(row["share_ci95"]), _between(row)) for row in rows]
    table = boxed(
        ("Setting", *(f"{point['steps']:,} steps" for point in found["points"])),
        [line(row["setting"], [_between(_of(point, row["setting"])) for point in found["points"]]) for row in rows],
        "Importance over training",
    )
    return (
        "<section><h2>What matters</h2><p>The share of the variance over all settings that each explains by itself "
        "(fANOVA), with 95 % intervals over resampled trials.</p>"
        f'<figure class="card">{interval_chart(marks, "Importance")}</figure>'
        f"<details><summary>Over training</summary>{table}</details></section>"
    )


def _surfaces(found: Row) -> str:
    points = found["points"][-_MOST_SURFACES:]
    values = [value for point in points for row in point["surface"] for value in row]
    low, high = min(values), max(values)
    drawn = "".join(
        f'<figure class="card surface"><figcaption>{point["steps"]:,} steps</figcaption>'
        f"{_surface(point['surface'], found['axes'], low, high)}</figure>"
        for point in points
    )
    first, second = (axis["setting"] for axis in found["axes"])
    return (
        f"<section><h2>{html.escape(first)} and {html.escape(second)} over training</h2>"
        f"<p>The expected {html.escape(found['measure'])}, mean over the other settings: from {_figure(low)} (light) "
        f"to {_figure(high)} (dark). {html.escape(first)} goes upwards, {html.escape(second)} to the right.</p>"
        f'<div class="surfaces">{drawn}</div></section>'
    )


def _surface(grid: Sequence[Sequence[float]], axes: Sequence[Row], low: float, high: float) -> str:
    """Cells of a grid; the first setting goes upwards, the second to the right."""
    count = len(grid)
    size = count * _CELL
    cells = "".join(
        f'<rect x="{_MARGIN + column * _CELL}" y="{(count - 1 - row) * _CELL}" width="{_CELL + 0.5}" '
        f'height="{_CELL + 0.5}" fill-opacity="{(value - low) / ((high - low) or 1.0):.3f}"><title>'
        f"{html.escape(axes[0]['setting'])} {_shown(axes[0]['values'][row])}, {html.escape(axes[1]['setting'])} "
        f"{_shown(axes[1]['values'][column])}: {_figure(value)}</title></rect>"
        for row, line_of in enumerate(grid)
        for column, value in enumerate(line_of)
    )
    upwards = "".join(
        f'<text x="{_MARGIN - 5}" y="{(count - 1 - row) * _CELL + 11}" text-anchor="end">'
        f"{_shown(axes[0]['values'][row])}</text>"
        for row in (0, count // 2, count - 1)
    )
    across = "".join(
        f'<text x="{_MARGIN + column * _CELL + _CELL / 2}" y="{size + 14}" text-anchor="{anchor}">'
        f"{_shown(axes[1]['values'][column])}</text>"
        for column, anchor in ((0, "start"), (count // 2, "middle"), (count - 1, "end"))
    )
    return (
        f'<svg viewBox="0 0 {_MARGIN + size + 2} {size + 20}" role="img" aria-label="Surface">'
        f'<rect class="ground" x="{_MARGIN}" y="0" width="{size}" height="{size}"/>{cells}{upwards}{across}</svg>'
    )


def _of(point: Row, setting: str) -> Row:
    (row,) = (each for each in point["importance"] if each["setting"] == setting)
    found: Row = row
    return found


def _between(row: Row) -> str:
    low, high = row["share_ci95"]
    return f"{row['share']:.2f} [{low:.2f}, {high:.2f}]"


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def _figure(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
