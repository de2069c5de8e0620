"""Boards as Grafana reads them: dashboards in JSON, and the files that provision them.

Built with Grafana's own foundation SDK, which only generation needs (dependency group ``monitoring``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from services.metrics.catalogue import MetricsError
from services.metrics.dashboards.panels import GREY, Board, Panel, Query, Row

try:
    from grafana_foundation_sdk.builders import common as common_builders
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common, dashboard
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat
except ModuleNotFoundError as error:
    raise MetricsError(
        "generating dashboards needs Grafana's foundation SDK: run make setup, or "
        "pip install 'grafana-foundation-sdk==1769699379!11.6.0'; the dashboards themselves lie in "
        "docker/monitoring/grafana/dashboards"
    ) from error

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder

_WIDTH = 24  # of a board, in Grafana's units
_DATASOURCE = dashboard.DataSourceRef("prometheus", "${datasource}")
_TAG = "entente"
DASHBOARDS_FOLDER = "/var/lib/grafana/dashboards"  # where Grafana finds them


def dashboard_json(board: Board, colors: Mapping[str, str]) -> str:
    """A board as a file of Grafana.

    Args:
        board: what it shows.
        colors: of series by their name, such as the countries'.
    """
    made = (
        builders.Dashboard(board.title)
        .uid(board.uid)
        .description(board.text)
        .tags([_TAG])
        .readonly()
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(
            builders.DashboardLink("Entente")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for variable in _variables(board):
        made = made.with_variable(variable)
    number, y = 0, 0
    for row in board.rows:
        number += 1
        made = made.with_row(_heading(row, number, y))
        y += 1
        for panel, x, below in _placed(row):
            number += 1
            place = dashboard.GridPos(x=x, y=y + below, w=panel.width, h=panel.height)
            made = made.with_panel(_panel(panel, colors, number, place))
        y += _height(row)
    return json.dumps(made.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def datasource_yaml(url: str) -> str:
    """Provisions Prometheus as the data source of the boards."""
    return f"""# Where the boards ask; written by `entente monitoring`.
apiVersion: 1
datasources:
  - name: Prometheus
    uid: prometheus
    type: prometheus
    access: proxy
    url: {url}
    isDefault: true
    editable: false
"""


def provider_yaml() -> str:
    """Provisions the boards."""
    return f"""# Where the boards lie; written by `entente monitoring`.
apiVersion: 1
providers:
  - name: entente
    folder: Entente
    type: file
    disableDeletion: true
    allowUiUpdates: false
    options:
      path: {DASHBOARDS_FOLDER}
"""


def _variables(board: Board) -> Iterator[Builder[dashboard.VariableModel]]:
    yield builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    yield _choice("run", "label_values(entente_policy_version, run)").label("Run")
    asked = {name for row in board.rows for name in (row.repeat, *(panel.repeat for panel in row.panels)) if name}
    for name, metric in (("country", "entente_country_centers"), ("against", "entente_evaluation_centers")):
        if name in asked:
            values = f'label_values({metric}{{run="$run"}}, {name})'
            yield _choice(name, values).label(name.capitalize()).multi(True).include_all(True).current(_all())
    windows = ("5m", "15m", "1h", "6h")
    options = [dashboard.VariableOption(text=one, value=one, selected=one == "15m") for one in windows]
    yield (
        builders.CustomVariable("window")
        .label("Rates over")
        .values(",".join(windows))
        .options(options)
        .current(dashboard.VariableOption(text="15m", value="15m", selected=True))
    )


def _choice(name: str, values: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .datasource(_DATASOURCE)
        .query(values)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )


def _all() -> dashboard.VariableOption:
    return dashboard.VariableOption(text=["All"], value=["$__all"], selected=True)


def _heading(row: Row, number: int, y: int) -> builders.Row:
    heading = builders.Row(row.title).id(number).grid_pos(dashboard.GridPos(x=0, y=y, w=_WIDTH, h=1))
    return heading.repeat(row.repeat) if row.repeat else heading


def _placed(row: Row) -> Iterator[tuple[Panel, int, int]]:
    """Every panel with its x and its y under the heading, line by line; a repeated one has its line to itself."""
    x = y = tallest = 0
    for panel in row.panels:
        width = _WIDTH if panel.repeat else panel.width
        if x + width > _WIDTH:
            x, y, tallest = 0, y + tallest, 0
        yield panel, x, y
        x, tallest = x + width, max(tallest, panel.height)


def _height(row: Row) -> int:
    return max(below + panel.height for panel, _, below in _placed(row))


def _panel(panel: Panel, colors: Mapping[str, str], number: int, place: dashboard.GridPos) -> Builder[dashboard.Panel]:
    made: Any = _KINDS[panel.kind](panel)  # builders of all kinds have the methods below
    made = made.id(number).grid_pos(place).title(panel.title).description(panel.text)
    made = made.datasource(_DATASOURCE).unit(panel.unit)
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        made = made.with_target(_target(panel, query, letter))
        if query.unit:
            made = made.override_by_query(letter, [_set("unit", query.unit)])
    if panel.least is not None:
        made = made.min(panel.least)
    if panel.most is not None:
        made = made.max(panel.most)
    if panel.words:
        words = {f"{value:g}": dashboard.ValueMappingResult(text=text) for value, text in panel.words}
        made = made.mappings([dashboard.ValueMap(options=words)])
    made = made.thresholds(_thresholds(panel))
    if panel.repeat:
        made = made.repeat(panel.repeat).repeat_direction("h").max_per_row(_WIDTH // panel.width)
    for name, color in colors.items():
        if any("{{country}}" in query.legend for query in panel.queries):
            made = made.override_by_name(name, [_set("color", {"mode": "fixed", "fixedColor": color})])
    for query in panel.queries:
        if query.faint:
            made = made.override_by_name(query.legend, [_set("color", {"mode": "fixed", "fixedColor": GREY})])
    edges = {query.edge: query.legend for query in panel.queries}
    filled: Builder[dashboard.Panel] = _filled(made, edges["low"], edges["high"]) if "low" in edges else made
    return filled


def _filled(made: Any, low: str, high: str) -> Any:
    """A band between two edges."""
    plain = [_set("custom.lineWidth", 0), _set("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False})]
    blue = _set("color", {"mode": "fixed", "fixedColor": "blue"})
    made = made.override_by_name(low, [*plain, blue, _set("custom.fillOpacity", 0)])
    fill = [_set("custom.fillBelowTo", low), _set("custom.fillOpacity", 25)]
    return made.override_by_name(high, [*plain, blue, *fill])


def _set(what: str, value: object) -> dashboard.DynamicConfigValue:
    return dashboard.DynamicConfigValue(what, value)


def _target(panel: Panel, query: Query, letter: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(_DATASOURCE)
    if panel.kind in ("table", "matrix"):
        return target.instant().format(PromQueryFormat.TABLE)
    return target.range().legend_format(query.legend or panel.title)


def _thresholds(panel: Panel) -> builders.ThresholdsConfig:
    # Grafana takes the first for everything below the second, whatever its value.
    steps = [dashboard.Threshold(value=value, color=color) for value, color in panel.colors or ((0, "text"),)]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _lines(panel: Panel) -> timeseries.Panel:
    stacking = common.StackingMode.NORMAL if panel.stacked else common.StackingMode.NONE
    made = (
        timeseries.Panel()
        .line_width(1)
        .fill_opacity(40 if panel.stacked else 0)
        .show_points(common.VisibilityMode.NEVER)
        .stacking(common_builders.StackingConfig().mode(stacking))
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    if panel.colors:
        style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.LINE)
        made = made.thresholds_style(style)
    return made


def _stat(panel: Panel) -> stat.Panel:
    colored = common.BigValueColorMode.BACKGROUND if panel.colors else common.BigValueColorMode.NONE
    return (
        stat.Panel()
        .color_mode(colored)
        .graph_mode(common.BigValueGraphMode.AREA if len(panel.queries) == 1 else common.BigValueGraphMode.NONE)
        .text_mode(common.BigValueTextMode.VALUE if len(panel.queries) == 1 else common.BigValueTextMode.VALUE_AND_NAME)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def _table(_: Panel) -> table.Panel:
    hidden = dict.fromkeys(("Time", "Value", "__name__", "alertstate", "job", "run"), True)
    options = {"excludeByName": hidden, "indexByName": {"severity": 0, "alertname": 1}, "renameByName": {}}
    return table.Panel().with_transformation(dashboard.DataTransformerConfig("organize", options=options))


def _matrix(panel: Panel) -> table.Panel:
    rows, columns = panel.by
    options = {"rowField": rows, "columnField": columns, "valueField": "Value"}
    return table.Panel().with_transformation(dashboard.DataTransformerConfig("groupingToMatrix", options=options))


_KINDS: Mapping[str, Any] = {"lines": _lines, "stat": _stat, "table": _table, "matrix": _matrix}
