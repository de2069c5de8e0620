"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const chosen = report.chosen; // the values of the controls

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

// The traces of a chart under the chosen values of the controls.
function chosenTraces(chart) {
  return chart.traces.filter((trace) => Object.entries(trace.when ?? {}).every(([name, value]) => chosen[name] === value));
}

// Only what Plotly knows.
function plain({ say, when, table, ...trace }) {
  return trace;
}

function unescaped(text) {
  const place = document.createElement("textarea");
  place.innerHTML = text;
  return place.value;
}

// What a screen reader reads of a chart.
function words(chart) {
  const said = chosenTraces(chart).map((trace) => trace.say).filter(Boolean);
  return unescaped(`${chart.title}. ${said.length ? said.join("; ") : "no data for this choice"}`);
}

// Whether a chart has a trace that answers to a control.
function answers(chart, name) {
  return chart.traces.some((trace) => name in (trace.when ?? {}));
}
