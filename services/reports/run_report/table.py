"""Tables of a run's report, as HTML; all texts are escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

NO_DATA = "no data"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], texts: int, *, name: str, last_apart: bool = False
) -> str:
    """Return a table with ``texts`` columns of text, then columns of numbers; ``last_apart`` sets off the last row."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = ["" if i < texts else ' class="number"' for i in range(len(row))]
        if tag == "th":
            kinds = [f'{kind} scope="col"' for kind in kinds]
        return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if any(head) else ""
    kinds = ["" for _ in rows[:-1]] + [' class="apart"' if last_apart else ""]
    body = "".join(f"<tr{kind}>{cells('td', row)}</tr>" for kind, row in zip(kinds, rows, strict=True))
    return scrolling(f"<table>{top}<tbody>{body}</tbody></table>", name)


def scrolling(table: str, name: str) -> str:
    """Return a table (HTML) in a box that scrolls sideways on a narrow screen, by touch or by the arrow keys."""
    return f'<div class="scroll card" role="region" tabindex="0" aria-label="{html.escape(name)}">{table}</div>'
