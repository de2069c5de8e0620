"""The page's sections: their charts in figures, each with its sentence and its table, and their controls."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_core.types import role_label
from services.reports.colors import LIGHT_COLORS
from services.reports.run_report import text as run_text
from services.reports.run_report.charts.chart import Chart, smoothing_width, thinning, words
from services.reports.run_report.charts.roles import SYMBOLS, anchors
from services.reports.run_report.data import RunData
from services.reports.run_report.groups.buckets import Bucket
from services.reports.run_report.groups.charts import ADVANTAGE, VALUES
from services.reports.run_report.roles.recent import recent_note, recent_section


@dataclass(frozen=True, slots=True)
class Control:
    """A choice that several charts follow."""

    name: str  # of the key in a trace's ``when``
    label: str
    options: Sequence[tuple[str, str]]  # value and label
    slider: bool = False  # which begins at the last option; else a list, which begins at the first

    @property
    def initial(self) -> str:
        """The value that is chosen first."""
        return self.options[-1 if self.slider else 0][0]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with charts."""

    name: str
    title: str
    wide: bool = True
    controls: tuple[str, ...] = ()


SECTIONS = (
    Section("curves", "Learning curves", wide=False),
    Section("recent", "The last 100 episodes, by {role}"),
    Section("comparison", "Before and after, by {role}"),
    Section("press", "Press"),
    Section("opponents", "Opponents and ratings"),
    Section("groups", "Groups", controls=("role", "value")),
    Section("advantages", "Returns and advantages", controls=("role", "frame")),
    Section("weights", "Weights of groups"),
    Section("learning", "The learner", wide=False),
    Section("speed", "Throughput", wide=False),
)


def controls(made: Sequence[Chart], run: RunData, frames: Sequence[tuple[str, str]]) -> dict[str, Control]:
    """Return the controls that traces of the charts answer to, by name; of a control with one option, none."""
    used: dict[str, list[str]] = {}
    for chart in made:
        for trace in chart["traces"]:
            for name, value in trace.get("when", {}).items():
                used.setdefault(name, []).append(value)
    role = run.measured.role_name
    known = set(used.get("role", ()))
    order = [each for each in run.measured.roles if each in known] + sorted(known.difference(run.measured.roles, [""]))
    labels = {name: text for name, text, *_ in VALUES} | {ADVANTAGE[0]: ADVANTAGE[1]}
    values = [(name, text) for name, text in labels.items() if name in used.get("value", ())]
    found = (
        Control(
            "role", run_text.sentence(role), [("", f"all {run.measured.plural}"), *((r, role_label(r)) for r in order)]
        ),
        Control("value", "Heat map shows", values),
        Control("frame", "Updates", frames, slider=True),
    )
    return {each.name: each for each in found if len(each.options) > 1 and each.name in used}


def chosen(made: Mapping[str, Control], charts: Sequence[Chart]) -> dict[str, str]:
    """Return the first choice of every control, and the only value of those that the page does not need."""
    only = {
        name: value for chart in charts for trace in chart["traces"] for name, value in trace.get("when", {}).items()
    }
    return {**only, **({"role": ""} if "role" in only else {}), **{name: each.initial for name, each in made.items()}}


def section_html(
    section: Section, run: RunData, charts: Sequence[Chart], made: Mapping[str, Control], buckets: Sequence[Bucket]
) -> str:
    """Return a section; empty without charts, unless a note says why there are none."""
    mine = [chart for chart in charts if chart["section"] == section.name]
    note, table = _note(section.name, run, buckets, bool(mine)), recent_section(run) if section.name == "recent" else ""
    if not mine and not (section.name in ("advantages",) and note):
        return ""
    heading = html.escape(section.title.format(role=run.measured.role_name))
    picks = "".join(_control(section.name, made[name]) for name in section.controls if name in made)
    bar = f'<div class="controls">{picks}</div>' if picks and mine else ""
    start = chosen(made, charts)
    figures = "".join(_figure(chart, start) for chart in mine)
    grid = f'<div class="grid{" wide" if section.wide else ""}">{figures}</div>' if mine else ""
    return f'<section id="{section.name}"><h2>{heading}</h2><p class="soft">{note}</p>{bar}{table}{grid}</section>'


def _control(section: str, control: Control) -> str:
    name, label = f"{section}-{control.name}", html.escape(control.label)
    if control.slider:
        last = len(control.options) - 1
        shown = html.escape(control.options[-1][1])
        return (
            f'<span class="control"><label for="{name}">{label}</label>'
            f'<input type="range" id="{name}" data-control="{control.name}" min="0" max="{last}" value="{last}" '
            f'aria-valuetext="{shown}"><output for="{name}">{shown}</output></span>'
        )
    options = "".join(
        f'<option value="{html.escape(value)}">{html.escape(text)}</option>' for value, text in control.options
    )
    pick = f'<select id="{name}" data-control="{control.name}">{options}</select>'
    return f'<span class="control"><label for="{name}">{label}</label>{pick}</span>'


def _figure(chart: Chart, start: Mapping[str, str]) -> str:
    lines = [trace["line"]["color"] for trace in chart["traces"] if "color" in trace.get("line", {})]
    name = lines[0].removeprefix("@") if chart["section"] == "curves" and lines else ""
    swatch = f'<span class="swatch" style="background:var(--line-{name})"></span>' if name in LIGHT_COLORS else ""
    title, place = html.escape(chart["title"]), html.escape(chart["id"])
    full = " full" if chart.get("full") else ""
    note = f'<p class="note">{html.escape(chart["note"])}</p>' if chart["note"] else ""
    return (
        f'<figure class="card{full}"><figcaption>{swatch}{title}</figcaption>'
        f'<div class="plot" id="{place}" role="img" aria-label="{html.escape(words(chart, start))}"></div>{note}'
        f'<details data-chart="{place}"><summary aria-label="Table: {title}">Table</summary>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}, table"></div></details></figure>'
    )


def contents(parts: Mapping[str, str]) -> str:
    """Return links to the sections, by id and title."""
    links = "".join(f'<a href="#{name}">{html.escape(title)}</a>' for name, title in parts.items())
    return f'<nav class="contents" aria-label="Sections">{links}</nav>' if links else ""


def title_of(section: Section, run: RunData) -> str:
    """Return a section's title."""
    return section.title.format(role=run.measured.role_name)


def _note(section: str, run: RunData, buckets: Sequence[Bucket], charts: bool) -> str:
    measured = run.measured
    main, role = measured.main, html.escape(measured.role_name)
    if section == "curves":
        named = zip(SYMBOLS, anchors(run), strict=False)
        marks = [f"{mark} {measured.versus} {html.escape(name)}" for (_, mark), name in named]
        evaluated = f" Evaluations with 95% intervals: {', '.join(marks)}; those of one checkpoint stand side by side."
        return (
            f"{html.escape(run_text.sentence(main.of_a_game))} of training games: faint points are single updates, the "
            f"line their moving average over {smoothing_width(len(run.lines))} updates.{evaluated if marks else ''} "
            f"{run_text.even_note(measured)}{_thinned(run)}"
        ).rstrip()
    seat = "as" if measured.opponents else "for"
    return {
        "recent": recent_note(run),
        "comparison": f"{html.escape(run_text.sentence(main.text))} {seat} each {role}, with 95% intervals; every "
        f"{role} plays equally often. {run_text.even_note(measured)}".rstrip(),
        "press": "What the policy and the powers it met said and did to one another, in its last 100 training episodes "
        f"as each {role}; all together, smoothed over a tenth of the run. Pairs and alliances are from saved games.",
        "opponents": "Ratings come from who finished above whom in training; anchors of known strength fix the scale.",
        "groups": "Samples with the same key are compared with one another. A group that is too small falls back to "
        f"the next, coarser level.{_bucketed(buckets)}",
        "advantages": _advantages(run, buckets, charts),
        "weights": f"How much each group counts in an update.{_unweighted(run)}{_bucketed(buckets)}",
        "speed": "By the clock of training, with waiting, without evaluations and downtime between resumes.",
        "learning": "Faint points are single updates, lines a moving average over a tenth of the run.",
    }[section]


def _thinned(run: RunData) -> str:
    step = thinning(len(run.lines))
    return "" if step == 1 else f" The run is long: lines show one of {step} updates, after smoothing."


def _bucketed(buckets: Sequence[Bucket]) -> str:
    size = max((len(bucket.audits) for bucket in buckets), default=1)
    if size == 1:
        return ""
    return f" The run is long: each column or point is the mean of {size} updates and stands at the last of them."


def _unweighted(run: RunData) -> str:
    if any(audit.group_weights for audit in run.audits):
        return ""
    return (
        " This run weighs all groups alike (grouping.group_weights = none), so only their share of the update is drawn."
    )


def _advantages(run: RunData, buckets: Sequence[Bucket], charts: bool) -> str:
    if not run.audits:
        return ""
    if not charts:
        return (
            "This run was recorded before audit records kept the distributions of returns and advantages, so "
            "there are no box plots and histograms."
        )
    size = max(len(bucket.audits) for bucket in buckets)
    pooled = "" if size == 1 else f" Histograms add up {size} neighbouring updates; box plots are of the last of them."
    return f"A sample's advantage is its return less the baseline of its group, scaled.{pooled}"


def page_data(charts: Sequence[Chart], made: Mapping[str, Control]) -> dict[str, Any]:
    """Return what the page's scripts work with."""
    return {
        "charts": charts,
        "colors": list(LIGHT_COLORS),
        "chosen": chosen(made, charts),
        "options": {name: [list(option) for option in each.options] for name, each in made.items()},
    }
