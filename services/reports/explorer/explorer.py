"""One offline page in which people see what grouping did in a run, made from the data that ``entente explore`` reads.

Its scripts do the arithmetic of ``grpo_core`` again in the browser (``arithmetic/``), keep what is chosen and unpack
recorded updates (``model/``), draw charts (``charts/``) and put the page together (``views/``, ``app.js``).
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from services.reports.colors import country_styles
from services.reports.page import asset, page

_ARITHMETIC = (
    *("numbers", "leave_one_out", "key_expressions", "grouping", "returns", "group_baseline", "shrinkage"),
    *("group_weights", "pipeline", "explained_variance", "token_weights", "losses"),
)
_MODEL = ("choice", "recorded", "strategies", "judged", "token_rows")
_VIEWS = (
    *("parts", "path", "strategy_controls", "dot_colors", "groups", "group_figures", "advantages", "course/course"),
    *("course/group_returns", "course/opponents"),
    *("inspector", "formulas", "loss_steps", "glossary", "questions", "pitfalls", "tour"),
)
_STYLES = ("common.css", "ladder_page/ladder_page.css", "methods_page/methods_page.css", "explorer/charts.css")
_BODY = """
<a class="skip" href="#view">Skip to the view</a>
<header class="top"><h1 id="title">{title}</h1><button type="button" id="start-tour">Take the tour</button></header>
<div id="head"></div>
<div id="shell"><main><div id="view" role="tabpanel" tabindex="-1"></div></main>
<aside id="inspector" aria-label="Selection"></aside></div>
<div id="tour"></div>
<noscript><p>This page computes in the browser; allow scripts to see it.</p></noscript>
"""


def explorer_page(document: Mapping[str, Any]) -> str:
    """Return the whole page of a document (see ``cluster.explore.document``)."""
    styles = "".join(asset(name) for name in _STYLES) + country_styles() + asset("explorer/explorer.css")
    title = str(document["title"])
    body = _BODY.format(title=html.escape(title))
    return page(f"{title}: explore", body, styles=styles, data=document, scripts=page_scripts())


def page_scripts() -> list[str]:
    """The page's scripts in the order in which they need one another."""
    return [
        *(asset(f"explorer/arithmetic/{name}.js") for name in _ARITHMETIC),
        *chart_scripts(),
        *(asset(f"explorer/model/{name}.js") for name in _MODEL),
        *(asset(f"explorer/views/{name}.js") for name in _VIEWS),
        asset("explorer/app.js"),
    ]


def chart_scripts() -> list[str]:
    """The scripts of the charts: what they share first, then each kind."""
    folder = files("services.reports").joinpath("explorer/charts")
    parts = sorted(each.name for each in folder.joinpath("parts").iterdir() if each.name.endswith(".js"))
    kinds = sorted(each.name for each in folder.iterdir() if each.name.endswith(".js"))
    names = ["svg.js", *(f"parts/{name}" for name in parts), *(name for name in kinds if name != "svg.js")]
    return [asset(f"explorer/charts/{name}") for name in names]
