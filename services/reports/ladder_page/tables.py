"""The tables of a ladder's page; all texts are escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from services.reports.ladder_page.figures import heading, interval_text, rating_text, value_text

Row = Mapping[str, Any]


def boxed(head: Sequence[str], rows: Sequence[str], name: str, kind: str = "") -> str:
    """A table in a box that scrolls sideways on a narrow screen; ``rows`` are HTML, ``name`` is for screen readers."""
    cells = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in head)
    table = f"<table{kind}><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll card" role="region" tabindex="0" aria-label="{html.escape(name)}">{table}</div>'


def line(first: str, cells: Sequence[str], kind: str = "") -> str:
    """A row of texts whose first cell names it."""
    rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr{kind}><th scope="row">{html.escape(first)}</th>{rest}</tr>'


def ladder_table(document: Row) -> str:
    """Every player and published figure, each value above its interval."""
    columns, rated = document["columns"], bool(document["mixed_games"])
    head = ["", "Player", *(["Rating"] if rated else []), *(heading(each["heading"]) for each in columns), "Games"]
    rows = [_measured(row, columns, rated) for row in document["ladder"]]
    rows += [_published(row, columns, rated) for row in document["published"]]
    return boxed(head, rows, "The ladder", ' class="ladder"')


def _measured(row: Row, columns: Sequence[Row], rated: bool) -> str:
    version = "" if row["version"] is None else f"<small>version {row['version']}</small>"
    cells = [f"<td>{row['place']}</td>", f'<th scope="row">{html.escape(row["checkpoint"])}{version}</th>']
    if rated:
        points, _, interval = rating_text(row).partition(" ")
        cells.append(_cell(points, interval))
    cells += [_figure(row, each) for each in columns]
    return f"<tr>{''.join(cells)}{_cell(str(row['games']), '')}</tr>"


def _published(row: Row, columns: Sequence[Row], rated: bool) -> str:
    note = "published" if row["comparable"] else "published, not comparable"
    cells = ["<td></td>", f'<th scope="row">{html.escape(row["checkpoint"])}<small>{note}</small></th>']
    cells += [_cell("–", "")] if rated else []
    cells += [_figure(row, each) for each in columns]
    games = "–" if row["games"] is None else str(row["games"])
    kind = "" if row["comparable"] else " apart"
    return f'<tr class="published{kind}">{"".join(cells)}{_cell(games, "")}</tr>'


def _figure(row: Row, column: Row) -> str:
    name, kind, digits = column["name"], column["kind"], column["digits"]
    return _cell(value_text(row[name], kind, digits), interval_text(row[f"{name}_ci95"], kind, digits))


def _cell(value: str, interval: str) -> str:
    below = f"<small>{html.escape(interval)}</small>" if interval else ""
    return f"<td>{html.escape(value)}{below}</td>"


def definitions_table(document: Row) -> str:
    """Each column's definition, and what others call the same figure."""
    rows = [
        line(heading(each["heading"]), (each["definition"], each["published_as"] or "–"))
        for each in document["columns"]
    ]
    return boxed(("Column", "What it is here", "Compare with"), rows, "Definitions", ' class="texts"')


def sources_table(document: Row) -> str:
    """Where published figures are from, and whether they can be put beside those of this page."""
    rows = [
        line(
            each["checkpoint"],
            (each["source"], each["definition"], "yes" if each["comparable"] else f"no: {each['why_not']}"),
        )
        for each in document["published"]
    ]
    return boxed(("Figure", "Source", "Its definition", "Comparable"), rows, "Published figures", ' class="texts"')
