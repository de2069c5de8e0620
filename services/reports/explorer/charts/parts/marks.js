"use strict";
// Signs besides colour: shapes, dashes and patterns, and the legend that explains them.
const LINE_DASHES = ["", "7 4", "2 3", "10 3 2 3", "5 2", "12 5", "1 5"];
const MARK_SHAPES = ["circle", "square", "triangle", "diamond", "cross", "plus", "triangle_down", "star"];
// Corners, in radii from the centre, of shapes that look about as large as a circle.
const SHAPE_CORNERS = {
  square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
  triangle: [[0, -1.25], [1.15, 0.8], [-1.15, 0.8]],
  triangle_down: [[0, 1.25], [1.15, -0.8], [-1.15, -0.8]],
  diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  plus: plusCorners(0),
  cross: plusCorners(Math.PI / 4),
  star: Array.from({ length: 10 }, (_, corner) => {
    const radius = corner % 2 ? 0.55 : 1.3;
    return [radius * Math.sin((corner * Math.PI) / 5), -radius * Math.cos((corner * Math.PI) / 5)];
  }),
};
// Lines, in a tile of 8 pixels, that tell areas apart; the first area has none.
const PATTERN_TILES = [
  "", "M-2 2 2 -2M0 8 8 0M6 10 10 6", "M0 4H8", "M-2 6 2 10M0 0 8 8M6 -2 10 2", "M4 0V8", "M4 4h.1", "M0 4H8M4 0V8",
];
let chartPatternCount = 0;

function plusCorners(turn) {
  const arm = 1.25;
  const half = 0.42;
  const corners = [];
  for (const quarter of [0, 1, 2, 3]) {
    const angle = turn + (quarter * Math.PI) / 2;
    for (const [along, across] of [[half, half], [arm, half], [arm, -half]]) {
      corners.push([
        along * Math.cos(angle) + across * Math.sin(angle), across * Math.cos(angle) - along * Math.sin(angle),
      ]);
    }
  }
  return corners;
}

// The outline of a shape ``size`` pixels wide around the origin; an unknown shape is a circle.
function shapePath(shape, size) {
  const radius = size / 2;
  const corners = SHAPE_CORNERS[shape];
  const half = `a${radius} ${radius} 0 1 0`;
  if (corners === undefined) return `M${-radius} 0${half} ${size} 0${half} ${-size} 0Z`;
  return `M${corners.map(([x, y]) => `${(x * radius).toFixed(2)} ${(y * radius).toFixed(2)}`).join("L")}Z`;
}

function lineDash(series, place) {
  return series.dash ?? LINE_DASHES[place % LINE_DASHES.length];
}

// Patterns for ``count`` areas: the <defs> that hold them, and the fill to lay over each area.
function areaPatterns(count) {
  const first = chartPatternCount;
  chartPatternCount += count;
  const tiles = Array.from({ length: count }, (_, place) =>
    svgElement("pattern", { id: `chart-pattern-${first + place}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
      svgElement("path", { class: "chart-pattern", d: PATTERN_TILES[place % PATTERN_TILES.length] })));
  return { defs: svgElement("defs", {}, ...tiles), fills: tiles.map((tile) => `url(#${tile.id})`) };
}

// A list of items { name, color } with one of: dash (a line), shape (a dot), pattern (an area's); an item may have a
// dash and a shape.
function chartLegend(items) {
  return element("ul", { class: "chart-legend" }, ...items.map((item) =>
    element("li", { title: item.name }, legendSample(item), element("span", {}, item.name))));
}

function legendSample({ color, dash, shape, pattern }) {
  const sample = svgElement("svg", { width: 26, height: 14, "aria-hidden": "true" });
  if (dash !== undefined) {
    sample.append(svgElement("path", { class: "chart-line", d: "M1 7H25", stroke: color, "stroke-dasharray": dash }));
  }
  if (shape !== undefined) {
    sample.append(svgElement("path", { d: shapePath(shape, 9), fill: color, transform: "translate(13 7)" }));
  }
  if (pattern !== undefined) {
    const box = { x: 5, width: 16, height: 14 };
    sample.append(svgElement("rect", { ...box, fill: color }), svgElement("rect", { ...box, fill: pattern }));
  }
  return sample;
}
