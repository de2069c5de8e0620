"use strict";
// Lines over a common x axis, read by pointer or keys; a click or Enter selects an x.
const LINE_POINTS = 600; // drawn of each line at most

// ``x`` holds ascending numbers; a null among the values of a series is a gap, and ``selected`` a place in x.
// ``band`` { low, high } is an area behind the lines, in the colour of the first.
function lineChart(options) {
  return makeChart("lines", options, drawLineChart);
}

function drawLineChart({ x, series, band, xTitle, yTitle, selected, onSelect }, width, chart) {
  const bandEdges = band ? [band.low, band.high] : [];
  const all = [...series.map((line) => line.values), ...bandEdges].flat();
  if (x.length === 0 || extentOf(all) === null) return emptyChart(width);
  const height = plotHeight(width);
  const axes = plotAxes({ width, height, xDomain: extentOf(x), yDomain: roomyExtent(all), xTitle, yTitle });
  const drawing = [...axes.nodes];
  if (band) drawing.push(bandNode(x, band, series[0]?.color ?? "var(--accent)", axes));
  if (x[selected] !== undefined) drawing.push(selectedRule(axes.xScale(x[selected]), axes));
  for (const [place, line] of series.entries()) drawing.push(...lineNodes(x, line, lineDash(line, place), axes));
  return {
    height, drawing, controls: lineReader({ x, series, band, xTitle, yTitle, selected, onSelect }, axes, chart),
    legend: series.length > 1 || series[0]?.name
      ? chartLegend(series.map((line, place) => ({ ...line, dash: lineDash(line, place) }))) : null,
  };
}

function lineNodes(x, { values, color }, dash, axes) {
  let line = "";
  let dots = "";
  for (const run of drawnRuns(values, LINE_POINTS)) {
    const points = run.map((place) => `${axes.xScale(x[place]).toFixed(1)} ${axes.yScale(values[place]).toFixed(1)}`);
    if (points.length === 1) dots += `M${points[0]}h0`;
    else line += `M${points.join("L")}`;
  }
  return [
    line && svgElement("path", { class: "chart-line", d: line, stroke: color, "stroke-dasharray": dash }),
    dots && svgElement("path", { class: "chart-dots", d: dots, stroke: color }),
  ].filter(Boolean);
}

function bandNode(x, { low, high }, color, axes) {
  const complete = low.map((value, place) => (Number.isFinite(value) && Number.isFinite(high[place]) ? value : null));
  const edge = (run, values) =>
    run.map((place) => `${axes.xScale(x[place]).toFixed(1)} ${axes.yScale(values[place]).toFixed(1)}`);
  const pieces = drawnRuns(complete, LINE_POINTS).map((run) =>
    `M${[...edge(run, high), ...edge(run, low).reverse()].join("L")}Z`);
  return svgElement("path", { class: "chart-band", d: pieces.join(""), fill: color });
}

// The places to draw, in runs without a gap: of many values the smallest and largest of each short stretch.
function drawnRuns(values, limit) {
  const runs = [];
  let gap = true;
  let last = -1;
  for (const place of drawnPlaces(values, limit)) {
    for (let between = last + 1; between < place; between += 1) gap ||= !Number.isFinite(values[between]);
    if (gap) runs.push([]);
    runs.at(-1).push(place);
    last = place;
    gap = false;
  }
  return runs;
}

function drawnPlaces(values, limit) {
  const known = values.map((_, place) => place).filter((place) => Number.isFinite(values[place]));
  if (known.length <= limit) return known;
  const stretches = Math.floor(limit / 2) - 1;
  const places = new Set([known[0], known.at(-1)]);
  for (let stretch = 0; stretch < stretches; stretch += 1) {
    const from = Math.floor((stretch * known.length) / stretches);
    const to = Math.floor(((stretch + 1) * known.length) / stretches);
    let [lowest, highest] = [known[from], known[from]];
    for (const place of known.slice(from, to)) {
      if (values[place] < values[lowest]) lowest = place;
      if (values[place] > values[highest]) highest = place;
    }
    places.add(lowest).add(highest);
  }
  return [...places].sort((a, b) => a - b);
}

function selectedRule(x, { top, bottom }) {
  return svgElement("path", { class: "chart-selected-rule", d: `M${x} ${top}V${bottom}` });
}

function lineReader({ x, series, band, xTitle, yTitle, selected, onSelect }, axes, chart) {
  const positions = x.map(axes.xScale);
  const known = (place) => series.filter((line) => Number.isFinite(line.values[place]));
  return valueReader({
    label: yTitle || "Values", count: x.length, start: selected ?? 0, onSelect, ...plotReading(axes, positions),
    marks: (place) => [
      readingRule(positions[place], axes),
      ...known(place).map((line) => svgElement("circle", {
        cx: positions[place], cy: axes.yScale(line.values[place]), r: 4, fill: line.color, class: "chart-mark",
      })),
    ],
    heading: (place) => `${xTitle ? `${xTitle} ` : ""}${axisNumber(x[place])}`,
    rows: (place) => [
      ...series.map((line, order) => ({
        name: line.name, color: line.color, dash: lineDash(line, order), text: formatNumber(line.values[place]),
      })),
      ...(band ? [{ name: "range", text: [band.low[place], band.high[place]].map(formatNumber).join(" to ") }] : []),
    ],
  }, chart);
}

// What the readers of all plots with an x axis have in common.
function plotReading({ left, right, top, bottom }, positions) {
  return {
    box: { x: left, y: top, width: right - left, height: bottom - top },
    nearest: (pointX) => nearestPosition(positions, pointX),
    anchor: (place) => [positions[place], top + 16],
  };
}

function readingRule(x, { top, bottom }) {
  return svgElement("path", { class: "chart-reading-rule", d: `M${x} ${top}V${bottom}` });
}
