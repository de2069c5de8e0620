"""One offline page of a comparison of methods, made from what ``entente compare`` writes as ``results.json``."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from services.reports.colors import country_styles
from services.reports.ladder_page.charts import Mark, interval_chart
from services.reports.ladder_page.tables import boxed, line
from services.reports.methods_page.curves import curves
from services.reports.page import asset, page

Row = Mapping[str, Any]
_AT_EQUAL_SECONDS = "at_equal_seconds"
UNITS = {"steps": "steps", "episodes": "games"}  # how people call what a budget counts
_HEADINGS = {"centers": "Centres", "squares": "Squares"}  # of what tasks tell besides


def methods_page(document: Row) -> str:
    """The whole page: a chart and a table for every task, what holds over tasks, and what is not significant."""
    styles = (
        asset("common.css")
        + country_styles()
        + asset("ladder_page/ladder_page.css")
        + asset("methods_page/methods_page.css")
    )
    body = f"<main>{methods_body(document)}</main>"
    return page(_page_title(document), body, styles=styles, data=document, scripts=[])


def methods_body(document: Row) -> str:
    """What the page holds, as HTML in which every text is escaped."""
    tasks = list(dict.fromkeys(row["task"] for row in document["summary"]["by_task"]))
    title = html.escape(_page_title(document))
    parts = [
        f"<header><h1>{title}</h1><p class='soft'>All methods have equally many steps of a task; in Diplomacy, equally "
        "many games. Lines are 95 % intervals over seeds. Seconds are of one core, in training.</p></header>",
        *(_over_tasks(document, each) for each in document["summary"]["over_tasks"] if len(each["rows"]) > 1),
        *(_task_section(task, document) for task in tasks),
        _pairs_section(document),
        _methods_section(document),
        _left_out(document),
        "<section><h2>Run it again</h2>"
        f'<pre class="card">{html.escape(document["command"])}</pre>'
        f'<p class="soft">Commit {html.escape(document["commit"])}, {html.escape(document["machine"])}.</p></section>',
    ]
    return "".join(parts)


def _page_title(document: Row) -> str:
    rows = document["summary"]["by_task"]
    return f"{len({row['method'] for row in rows})} methods on {len({row['task'] for row in rows})} tasks"


def _over_tasks(document: Row, table_of: Row) -> str:
    rows, tasks = table_of["rows"], ", ".join(table_of["tasks"])
    marks = [_mark(document, row, "interquartile_mean", 2) for row in rows]
    table = boxed(
        ("Method", "Interquartile mean", "Worst task", *(f"above {point['above']}" for point in rows[0]["profile"])),
        [line(_title(document, row["method"]), (_figure(row, "interquartile_mean", 2), _figure(row, "worst_task", 2),
              *(_share(point) for point in row["profile"]))) for row in rows],
        "Over tasks",
    )  # fmt: skip
    return (
        f"<section><h2>Over {len(table_of['tasks'])} tasks</h2><p>The interquartile mean of scores, random play at 0 "
        f"and a solved task at 1, over {html.escape(tasks)}. The table has the share of runs above "
        "each score, each with its own interval. The lowest of several noisy means is biased downwards.</p>"
        f'<figure class="card">{interval_chart(marks, "Interquartile means")}</figure>{table}</section>'
    )


def _task_section(task: str, document: Row) -> str:
    rows = [row for row in document["summary"]["by_task"] if row["task"] == task]
    game = rows[0].get("exploitability") is not None
    name = "exploitability" if game else "return"
    rows.sort(key=lambda row: row[name] if game else -row[name])
    digits = 3 if game else 1
    marks = [_mark(document, row, name, digits) for row in rows]
    columns: list[tuple[str, str, int]] = [("Return", "return", 1)]
    if game:
        columns = [
            ("Exploitability, last", "exploitability", 3),
            ("of the average of all updates' policies", "average_exploitability", 3),
        ]
    if rows[0].get("worst_variant") is not None:
        columns += [("Worst variant", "worst_variant", 1), ("Worst over best", "balance", 2)]
        columns += [("Fairness", "fairness", 2)]
    columns += [(_HEADINGS.get(each, each), each, 1 if each == "centers" else 3) for each in rows[0]["figures"]]
    after = {row["method"]: row for row in document["summary"]["equal_seconds"] if row["task"] == task}
    measured = "Exploitability" if game else "Return"
    seconds = after[rows[0]["method"]]["seconds"]
    columns.append((f"{measured} after {seconds:,.{0 if seconds >= 10 else 1}f} s", _AT_EQUAL_SECONDS, digits))
    rows = [row | _renamed(after[row["method"]], name, _AT_EQUAL_SECONDS) for row in rows]
    if not game:
        columns += [("More than untrained", "gain", 1), ("Mean over steps", "area", 1)]
    told = ("Worst seed", "Between seeds", "Seeds", "Steps", "Episodes", "Seconds", "Steps/s")
    head = ("Method", *(heading for heading, _, _ in columns), *told)
    table = boxed(
        head,
        [line(_title(document, row["method"]), (*(_figure(row, each, places) for _, each, places in columns),
              f"{row['worst_seed']:.{digits}f}", _spread(row, digits), _seeds(row), f"{row['steps']:,}",
              f"{row['episodes']:,}", f"{row['seconds']:.0f}",
              f"{row['steps_per_second']:,.0f}"))
         for row in rows],
        task,
    )  # fmt: skip
    what = "The mean return of episodes that no policy trains on."
    if game:
        yardstick = document["yardsticks"][task]
        what = (
            "What a best response gains, mean over players, and 0 in equilibrium: lower is better. Even odds over all "
            f"moves leave {rows[0]['uniform_exploitability']:.3f}; {yardstick['passes']} passes of counterfactual "
            f"regret minimisation, which sees the whole game, {yardstick['exploitability']:.3f}"
            + ("." if yardstick["players"] == 2 else ", without a guarantee for more than two players.")
        )
    what, unit = f"{what} {_budget(rows)}", rows[0]["unit"]
    courses = _courses(document, task, name, unit)
    return (
        f"<section><h2>{html.escape(task)}</h2><p>{html.escape(what)}</p>"
        f'<figure class="card">{interval_chart(marks, task)}</figure>'
        f'<figure class="card">{curves(courses, document["titles"], UNITS[unit])}</figure>{table}'
        f"{_worst_variants(document, task)}"
        f"{_pairs_table(document, document['summary']['pairs_by_task'][task])}</section>"
    )


def _budget(rows: Sequence[Row]) -> str:
    """What each run was to get, and what runs got; ``rows`` are of one task."""
    unit, budget = UNITS[rows[0]["unit"]], rows[0]["budget"]
    least, most = min(row["least"] for row in rows), max(row["most"] for row in rows)
    said = f"Each run was to get {budget:,} {unit}."
    if least == most == budget:
        return said
    ended = f"at {least:,}" if least == most else f"between {least:,} and {most:,}"
    return f"{said} An update is not cut short, so runs ended {ended}."


def _renamed(row: Row, name: str, new: str) -> dict[str, Any]:
    return {new: row[name], f"{new}_ci95": row[f"{name}_ci95"]}


def _worst_variants(document: Row, task: str) -> str:
    """What groups bring the worst variant of a task, against one group for all."""
    found = [row for row in document["summary"]["by_task"] if row["task"] == task]
    if not any(row.get("by_variant") for row in found):
        return ""
    fair = (
        "<p class='soft'>Fairness is Jain's index over the variants' returns: 1 where all fare alike, "
        f"{1 / len(found[0]['by_variant']):.2f} where one has everything; none where a return is negative.</p>"
    )
    rows = [row for row in document["summary"]["worst_variants"] if row["task"] == task]
    if not rows:
        return fair
    table = boxed(
        ("Method", "Times one group's"),
        [line(_title(document, row["method"]), (_figure(row, "ratio", 2),)) for row in rows],
        f"Worst variant of {task}",
    )
    return (
        f"{fair}<h3>The worst variant</h3><p>The return of each run's worst variant, as a ratio to that of one group "
        f"for all episodes; the interval is of a bootstrap over the seeds of both.</p>{table}"
    )


def _spread(row: Row, digits: int) -> str:
    return "–" if row["deviation"] is None else f"{row['deviation']:.{digits}f}"


def _seeds(row: Row) -> str:
    return f"{row['seeds']}, {row['diverged']} diverged" if row["diverged"] else str(row["seeds"])


def _courses(document: Row, task: str, name: str, unit: str) -> Mapping[str, Sequence[tuple[float, float]]]:
    """By method, mean steps or episodes and mean figure at each point over the seeds."""
    points: dict[str, dict[int, list[tuple[float, float]]]] = {}
    seen: dict[tuple[str, int], int] = {}
    for row in document["rows"]:
        if row["task"] == task:
            place = seen[row["method"], row["seed"]] = seen.get((row["method"], row["seed"]), -1) + 1
            points.setdefault(row["method"], {}).setdefault(place, []).append((row[unit], row[name]))
    return {
        method: [(sum(steps for steps, _ in each) / len(each), sum(value for _, value in each) / len(each))
                 for _, each in sorted(by_place.items())]
        for method, by_place in points.items()
    }  # fmt: skip


def _pairs_section(document: Row) -> str:
    pairs = document["summary"]["pairs"]
    if not pairs:
        return ""
    sure = [row for row in pairs if row["significant"]]
    return (
        f"<section><h2>What is significant, and what is not</h2><p>{len(sure)} of {len(pairs)} differences "
        "between two methods, over the tasks that both have, are significant at 0.05 (permutation test, Holm's "
        f"correction for {len(pairs)} pairs). Chance may explain the others. The pairs of each task above are "
        f"corrected for that task's pairs alone.</p>{_pairs_table(document, pairs)}</section>"
    )


def _pairs_table(document: Row, pairs: Sequence[Row]) -> str:
    if not pairs:
        return ""
    sure = sum(row["significant"] for row in pairs)
    rows = [
        line(f"{_title(document, row['second'])} over {_title(document, row['first'])}",
             (_figure(row, "second_better", 2), _p_text(row["p_corrected"]), "yes" if row["significant"] else "no",
              str(len(row["tasks"]))))
        for row in sorted(pairs, key=lambda row: row["p_corrected"])
    ]  # fmt: skip
    table = boxed(("Pair", "Probability that a run is better", "p", "Significant", "Tasks"), rows, "Pairs")
    return f"<details><summary>Every pair: {sure} of {len(pairs)} are significant</summary>{table}</details>"


def _share(point: Row) -> str:
    interval = point["share_ci95"]
    return f"{point['share']:.0%}" + ("" if interval is None else f" [{interval[0]:.0%}, {interval[1]:.0%}]")


def _p_text(p: float) -> str:
    return "below 0.001" if p < 0.001 else f"{p:.3f}"


def _methods_section(document: Row) -> str:
    used = dict.fromkeys(row["method"] for row in document["summary"]["by_task"])
    rows = [line(_title(document, name), (document["methods"][name],)) for name in used]
    return f"<section><h2>The methods</h2>{boxed(('Method', 'What it does'), rows, 'Methods', ' class=said')}</section>"


def _left_out(document: Row) -> str:
    lines = [
        *document["missing"],
        *(f"{line}; --resume runs it again" for line in document["failed"]),
        *(
            f"{row['run']} diverged, and counts from there with what it had at its start: {row['error']}"
            for row in document["summary"]["diverged"]
        ),
    ]
    if not lines:
        return ""
    said = "".join(f"<li>{html.escape(each)}</li>" for each in lines)
    return f"<section><h2>Left out, failed or diverged</h2><ul>{said}</ul></section>"


def _mark(document: Row, row: Row, name: str, digits: int) -> Mark:
    interval = row[f"{name}_ci95"]
    return Mark(_title(document, row["method"]), row[name], None if interval is None else tuple(interval),
                _figure(row, name, digits))  # fmt: skip


def _title(document: Row, method: str) -> str:
    return str(document["titles"][method])


def _figure(row: Row, name: str, digits: int) -> str:
    value, interval = row[name], row[f"{name}_ci95"]
    if value is None:
        return "–"
    low_high = "" if interval is None else f" [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"
    return f"{value:.{digits}f}{low_high}"
