"""Dashboards in Grafana's JSON, made with its foundation SDK, and the files that provision them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from services.metrics.catalogue import MetricsError
from services.metrics.dashboards.panels import GREY, Dashboard, Panel, Query, Row

try:
    from grafana_foundation_sdk.builders import common as common_builders
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common
    from grafana_foundation_sdk.models import dashboard as models
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat
except ModuleNotFoundError as error:
    raise MetricsError(
        "generating dashboards needs Grafana's foundation SDK: run make setup, or "
        "pip install 'grafana-foundation-sdk==1769699379!11.6.0'; the generated dashboards are in "
        "docker/monitoring/grafana/dashboards"
    ) from error

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder

_WIDTH = 24  # a dashboard's width in Grafana's units
_DATASOURCE = models.DataSourceRef("prometheus", "${datasource}")
_TAG = "entente"
_ALL_VALUES = models.VariableOption(text=["All"], value=["$__all"], selected=True)
DASHBOARDS_FOLDER = "/var/lib/grafana/dashboards"  # in Grafana's container


Colors = Mapping[str, Mapping[str, str]]  # label -> value -> colour of its series


def dashboard_json(dashboard: Dashboard, colors: Colors) -> str:
    """Make the JSON file of a dashboard."""
    made = (
        builders.Dashboard(dashboard.title)
        .uid(dashboard.uid)
        .description(dashboard.text)
        .tags([_TAG])
        .readonly()
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            builders.DashboardLink("Entente")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for variable in _variables(dashboard):
        made = made.with_variable(variable)
    number, y = 0, 0
    for row in dashboard.rows:
        number += 1
        heading = builders.Row(row.title).id(number).grid_pos(models.GridPos(x=0, y=y, w=_WIDTH, h=1))
        made = made.with_row(heading.repeat(row.repeat) if row.repeat else heading)
        y += 1
        for panel, x, below in _placed(row):
            number += 1
            place = models.GridPos(x=x, y=y + below, w=panel.width, h=panel.height)
            made = made.with_panel(_panel(panel, colors, number, place))
        y += max(below + panel.height for panel, _, below in _placed(row))
    return json.dumps(made.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def datasource_yaml(url: str) -> str:
    """Return the provisioning file of Prometheus as the dashboards' data source.

    Raises ``MetricsError`` if the address is none of HTTP.
    """
    if not url.startswith(("http://", "https://")) or not url.isprintable() or set(url) & set(" '\""):
        raise MetricsError(f"--prometheus-url {url!r} is no address such as http://prometheus:9090")
    return f"""# The dashboards' data source; written by `entente monitoring`.
apiVersion: 1
datasources:
  - name: Prometheus
    uid: prometheus
    type: prometheus
    access: proxy
    url: '{url}'
    isDefault: true
    editable: false
"""


def provider_yaml() -> str:
    """Return the provisioning file of the dashboards."""
    return f"""# The dashboards' folder; written by `entente monitoring`.
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


def _variables(dashboard: Dashboard) -> Iterator[Builder[models.VariableModel]]:
    yield builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    yield _choice("run", "label_values(entente_policy_version, run)").label("Run")
    asked = {name for row in dashboard.rows for name in (row.repeat, *(panel.repeat for panel in row.panels)) if name}
    for name, metric in dashboard.choices.items():
        if name in asked:
            values = f'label_values({metric}{{run="$run"}}, {name})'
            yield _choice(name, values).label(name.capitalize()).multi(True).include_all(True).current(_ALL_VALUES)
    windows = ("5m", "15m", "1h", "6h")
    options = [models.VariableOption(text=one, value=one, selected=one == "15m") for one in windows]
    rates = builders.CustomVariable("window").label("Rates over").values(",".join(windows)).options(options)
    yield rates.current(options[1])


def _choice(name: str, values: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .datasource(_DATASOURCE)
        .query(values)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def _placed(row: Row) -> Iterator[tuple[Panel, int, int]]:
    """Yield every panel with its x and its y below the heading; a repeated panel has a line of its own."""
    x = y = tallest = 0
    for panel in row.panels:
        width = _WIDTH if panel.repeat else panel.width
        if x + width > _WIDTH:
            x, y, tallest = 0, y + tallest, 0
        yield panel, x, y
        x, tallest = x + width, max(tallest, panel.height)


def _panel(panel: Panel, colors: Colors, number: int, place: models.GridPos) -> Builder[models.Panel]:
    made: Any = _KINDS[panel.kind](panel)  # the builders of all kinds have the methods below
    made = made.id(number).grid_pos(place).title(panel.title).description(panel.text)
    made = made.datasource(_DATASOURCE).unit(panel.unit)
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        made = made.with_target(_target(panel, query, letter))
        if query.unit:
            made = made.override_by_query(letter, [_set("unit", query.unit)])
    if panel.minimum is not None:
        made = made.min(panel.minimum)
    if panel.maximum is not None:
        made = made.max(panel.maximum)
    if panel.value_names:
        words = {f"{value:g}": models.ValueMappingResult(text=text) for value, text in panel.value_names}
        made = made.mappings([models.ValueMap(options=words)])
    made = made.thresholds(_thresholds(panel))
    if panel.repeat:
        made = made.repeat(panel.repeat).repeat_direction("h").max_per_row(_WIDTH // panel.width)
    for label, by_value in colors.items():
        if any(f"{{{{{label}}}}}" in query.legend for query in panel.queries):
            for name, color in by_value.items():
                made = made.override_by_name(name, [_color(color)])
    for query in panel.queries:
        if query.faint:
            made = made.override_by_name(query.legend, [_color(GREY)])
    edges = {query.edge: query.legend for query in panel.queries}
    if edges.keys() >= {"low", "high"}:
        hidden = _set("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False})
        line = [_set("custom.lineWidth", 0), hidden, _color("blue")]
        made = made.override_by_name(edges["low"], [*line, _set("custom.fillOpacity", 0)])
        fill = [_set("custom.fillBelowTo", edges["low"]), _set("custom.fillOpacity", 25)]
        made = made.override_by_name(edges["high"], [*line, *fill])
    finished: Builder[models.Panel] = made
    return finished


def _set(what: str, value: object) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(what, value)


def _color(color: str) -> models.DynamicConfigValue:
    return _set("color", {"mode": "fixed", "fixedColor": color})


def _target(panel: Panel, query: Query, letter: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(_DATASOURCE)
    if panel.kind in ("table", "matrix"):
        return target.instant().format(PromQueryFormat.TABLE)
    return target.range().legend_format(query.legend or panel.title)


def _thresholds(panel: Panel) -> builders.ThresholdsConfig:
    # Grafana uses the first step below the second, whatever the first value is.
    steps = [models.Threshold(value=value, color=color) for value, color in panel.colors or ((0, "text"),)]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


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
    return table.Panel().with_transformation(models.DataTransformerConfig("organize", options=options))


def _matrix(panel: Panel) -> table.Panel:
    rows, columns = panel.by
    options = {"rowField": rows, "columnField": columns, "valueField": "Value"}
    return table.Panel().with_transformation(models.DataTransformerConfig("groupingToMatrix", options=options))


_KINDS: Mapping[str, Any] = {"lines": _lines, "stat": _stat, "table": _table, "matrix": _matrix}
