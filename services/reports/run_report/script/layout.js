// The line of an even share, drawn under the data, with its number in the margin.
function evenShare(value, colors) {
  if (value === undefined) return {};
  const across = { xref: "paper", x0: 0, x1: 1, yref: "y", y0: value, y1: value };
  return {
    shapes: [{ type: "line", layer: "below", ...across, line: { color: colors["@muted"], width: 1.3, dash: "dot" } }],
    annotations: [{ xref: "paper", x: 1, xanchor: "left", yref: "y", y: value, yanchor: "middle", showarrow: false,
      text: value.toFixed(2), font: { size: 10, color: colors["@muted"] } }],
  };
}

function noData(colors) {
  return { annotations: [{ xref: "paper", x: 0.5, yref: "paper", y: 0.5, showarrow: false, text: "no data",
    font: { size: 14, color: colors["@muted"] } }] };
}

function layout(chart, traces, colors, narrow) {
  const axis = { gridcolor: colors.line, linecolor: colors.line, zerolinecolor: colors.line, automargin: true };
  const across = chart.category ? undefined : { text: chart.x ?? "update", standoff: 4 };
  const updates = chart.category || (chart.x && !chart.whole) ? [] : traces.flatMap((trace) => trace.x ?? []);
  const few = updates.length && Math.max(...updates) - Math.min(...updates) < 10; // no tick between two whole numbers
  const barmode = chart.overlay ? "overlay" : chart.stacked ? "stack" : "group";
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: chart.heat ? colors.line : "rgba(0,0,0,0)", // of cells without data
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colors["@muted"] },
    margin: { l: 44, r: chart.even === undefined ? 10 : 30, t: 8, b: 34 },
    height: chart.heat ? chart.margins + chart.row * rowsOf(traces) : undefined,
    showlegend: Boolean(chart.legend || (chart.overlay && traces.length > 1)),
    legend: { orientation: "h", traceorder: "normal", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
    barmode,
    bargap: chart.stacked || chart.overlay ? 0 : 0.25,
    boxgap: 0.3,
    hovermode: chart.category || chart.heat ? "closest" : "x",
    dragmode: narrow || chart.heat ? false : "zoom",
    xaxis: { ...axis, showgrid: !chart.heat, title: across, type: chart.category ? "category" : "linear", range: chart.xrange, dtick: few ? 1 : undefined },
    yaxis: {
      ...axis, showgrid: !chart.heat, title: chart.y ? { text: chart.y, standoff: 6 } : undefined,
      type: chart.heat ? "category" : "linear", dtick: chart.heat ? 1 : undefined,
      rangemode: !chart.boxes && (chart.zero || chart.category || chart.stacked || chart.overlay) ? "tozero" : "normal", range: chart.range,
    },
    ...(traces.length ? evenShare(chart.even, colors) : noData(colors)),
  };
}

function rowsOf(traces) {
  return Math.max(1, ...traces.map((trace) => trace.y.length));
}
