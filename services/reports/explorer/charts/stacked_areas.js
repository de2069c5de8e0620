"use strict";
// Amounts on top of one another over a common x axis: the first series lies at the bottom.

// ``x`` holds ascending numbers; values are at least 0, and a null counts as 0. ``selected`` is a place in x.
function stackedAreas(options) {
  return makeChart("areas", options, drawStackedAreas);
}

function drawStackedAreas({ x, series, xTitle, yTitle, selected, onSelect }, width, chart) {
  if (x.length === 0 || extentOf(series.flatMap((area) => area.values)) === null) return emptyChart(width);
  const height = plotHeight(width);
  const edges = stackedEdges(x.length, series);
  const yDomain = [0, extentOf(edges.at(-1))[1] || 1];
  const axes = plotAxes({ width, height, xDomain: extentOf(x), yDomain, xTitle, yTitle });
  const corners = x.length > 1 // a single x fills the whole width
    ? drawnPlaces(edges.at(-1), LINE_POINTS).map((place) => ({ place, x: axes.xScale(x[place]) }))
    : [{ place: 0, x: axes.left }, { place: 0, x: axes.right }];
  const patterns = areaPatterns(series.length);
  const drawing = [patterns.defs, ...axes.nodes];
  for (const [order, { color }] of series.entries()) {
    const d = areaPath(corners, edges[order], edges[order + 1], axes.yScale);
    drawing.push(svgElement("path", { class: "chart-area", d, fill: color }));
    drawing.push(svgElement("path", { d, fill: patterns.fills[order] }));
  }
  const names = series.map(({ name }, order) => areaName(name, corners, edges[order], edges[order + 1], axes));
  drawing.push(...names.filter(Boolean));
  if (x[selected] !== undefined) drawing.push(selectedRule(axes.xScale(x[selected]), axes));
  const legend = series.map((area, order) => ({ ...area, pattern: patterns.fills[order] })).reverse();
  return {
    height, drawing, legend: chartLegend(legend),
    controls: areaReader({ x, xTitle, yTitle, selected, onSelect }, edges, legend, axes, chart),
  };
}

// The edges between areas, from the axis up: series + 1 arrays over x.
function stackedEdges(count, series) {
  const edges = [new Array(count).fill(0)];
  for (const { values } of series) {
    edges.push(edges.at(-1).map((below, place) => below + Math.max(0, values[place] ?? 0)));
  }
  return edges;
}

function areaPath(corners, low, high, yScale) {
  const forth = corners.map(({ place, x }) => `${x.toFixed(1)} ${yScale(high[place]).toFixed(1)}`);
  const back = corners.map(({ place, x }) => `${x.toFixed(1)} ${yScale(low[place]).toFixed(1)}`).reverse();
  return `M${[...forth, ...back].join("L")}Z`;
}

// An area's name inside it, at its thickest place, if the area is high enough for the whole name there.
function areaName(name, corners, low, high, { left, right, yScale }) {
  const half = textWidth(name) / 2 + 4;
  if (right - left < 2 * half) return null;
  const thickness = ({ place }) => high[place] - low[place];
  const thickest = corners.reduce((best, corner) => (thickness(corner) > thickness(best) ? corner : best));
  const x = clampedTo(thickest.x, left + half, right - half);
  const around = corners.filter((corner) => Math.abs(corner.x - x) <= half + 8);
  const ceiling = Math.max(...around.map(({ place }) => yScale(high[place])));
  const floor = Math.min(...around.map(({ place }) => yScale(low[place])));
  if (!(floor - ceiling >= NAME_LINE)) return null;
  return svgElement("text", { class: "chart-halo", x, y: (floor + ceiling) / 2 + 4, "text-anchor": "middle" }, name);
}

function areaReader({ x, xTitle, yTitle, selected, onSelect }, edges, legend, axes, chart) {
  const positions = x.map(axes.xScale);
  return valueReader({
    label: yTitle || "Values", count: x.length, start: selected ?? 0, onSelect, ...plotReading(axes, positions),
    marks: (place) => [
      readingRule(positions[place], axes),
      ...edges.slice(1).map((edge) => svgElement("circle", {
        cx: positions[place], cy: axes.yScale(edge[place]), r: 3, fill: "var(--ink)", class: "chart-mark",
      })),
    ],
    heading: (place) => `${xTitle ? `${xTitle} ` : ""}${axisNumber(x[place])}`,
    rows: (place) => [
      ...legend.map((item) => ({ ...item, text: formatNumber(item.values[place]) })),
      { name: "together", text: formatNumber(edges.at(-1)[place]) },
    ],
  }, chart);
}
