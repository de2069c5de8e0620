"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const narrow = window.matchMedia("(max-width: 600px)");

function pageColors() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const lines = Object.fromEntries(report.colors.map((name) => [`@${name}`, color(`--line-${name}`)]));
  return { ...lines, "@ink": color("--ink"), "@muted": color("--soft"), "@accent": color("--accent"), "@card": color("--card"), line: color("--line") };
}

// Traces name the page's colours; they are filled in for the current scheme.
function colored(value, colors) {
  if (typeof value === "string") return colors[value] ?? value;
  if (Array.isArray(value)) return value.map((item) => colored(item, colors));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, colored(item, colors)]));
}

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

function layout(chart, colors) {
  const axis = { gridcolor: colors.line, linecolor: colors.line, zerolinecolor: colors.line, automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colors["@muted"] },
    margin: { l: 44, r: chart.even === undefined ? 10 : 30, t: 8, b: 34 },
    showlegend: Boolean(chart.legend),
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
    barmode: chart.stacked ? "stack" : "group",
    bargap: chart.stacked ? 0 : 0.25,
    hovermode: chart.category ? "closest" : "x",
    dragmode: narrow.matches ? false : "zoom",
    xaxis: { ...axis, title: chart.category ? undefined : { text: "update", standoff: 4 }, type: chart.category ? "category" : "linear" },
    yaxis: { ...axis, title: { text: chart.y, standoff: 6 }, rangemode: chart.zero || chart.category ? "tozero" : "normal", range: chart.range },
    ...evenShare(chart.even, colors),
  };
}

function draw() {
  const colors = pageColors();
  for (const chart of report.charts) {
    const place = document.getElementById(chart.id);
    Plotly.react(place, colored(chart.traces, colors), layout(chart, colors), { displayModeBar: false, responsive: true });
  }
}

draw();
dark.addEventListener("change", draw);
narrow.addEventListener("change", draw);
