"use strict";
// Distributions over the same bins: two are mirrored at the axis, more stand below one another.
const HISTOGRAM_BINS = [6, 40]; // fewest and most
const PANEL_NAME_HEIGHT = 26; // pixels

// Panels { name, values, color }, where null is no value; heights are shares of a panel's values.
function histograms(options) {
  return makeChart("histograms", options, drawHistograms);
}

function drawHistograms({ panels, xTitle, bins }, width, chart) {
  const counted = panels.map((panel) => ({ ...panel, values: panel.values.filter(Number.isFinite) }));
  const all = counted.flatMap((panel) => panel.values);
  if (all.length === 0) return emptyChart(width);
  const edges = binEdges(all, bins);
  for (const panel of counted) panel.shares = binShares(panel.values, edges);
  const mirrored = panels.length === 2;
  const panelHeight = panels.length === 1 ? 190 : mirrored ? 120 : 84;
  const height = panels.length * (panelHeight + PANEL_NAME_HEIGHT) + AXIS_LABEL_HEIGHT * 2 + 6;
  const highest = Math.max(...counted.flatMap((panel) => panel.shares));
  const bottom = height - AXIS_LABEL_HEIGHT * 2;
  const axes = { left: 46, right: width - PLOT_RIGHT_ROOM, top: 4, bottom };
  axes.xScale = linearScale([edges[0], edges.at(-1)], [axes.left, axes.right]);
  const drawing = counted.flatMap((panel, order) => {
    const start = 4 + order * (panelHeight + PANEL_NAME_HEIGHT);
    const hangs = mirrored && order === 1;
    // A hanging panel has its name below, so that both distributions meet at one line.
    const place = hangs ? { base: start, tip: start + panelHeight, name: start + panelHeight + 17 }
      : { base: start + PANEL_NAME_HEIGHT + panelHeight, tip: start + PANEL_NAME_HEIGHT, name: start + 16 };
    return panelNodes(panel, place, edges, highest, axes);
  });
  drawing.push(...xAxisNodes(axes, width, [edges[0], edges.at(-1)]));
  if (xTitle) drawing.push(xTitleNode(xTitle, axes, height));
  return { height, drawing, controls: binReader(counted, edges, xTitle, axes, chart) };
}

// Equal bins: as many as asked for, or by the rule of Freedman and Diaconis (1981).
function binEdges(values, bins) {
  const [low, high] = extentOf(values);
  if (low === high) {
    const room = Math.max(0.5, Math.abs(low) * 0.05);
    return [low - room, low + room];
  }
  const { lower, upper } = fiveNumbers(values);
  const width = (2 * (upper - lower)) / Math.cbrt(values.length);
  const count = bins ?? clampedTo(width > 0 ? Math.ceil((high - low) / width) : 20, ...HISTOGRAM_BINS);
  return Array.from({ length: count + 1 }, (_, edge) => low + ((high - low) * edge) / count);
}

function binShares(values, edges) {
  const shares = new Array(edges.length - 1).fill(0);
  const width = (edges.at(-1) - edges[0]) / shares.length;
  for (const value of values) {
    const bin = Math.floor((value - edges[0]) / width);
    shares[clampedTo(bin, 0, shares.length - 1)] += 1 / values.length; // the last bin has its upper edge
  }
  return shares;
}

function meanOfValues(values) {
  return values.reduce((total, value) => total + value, 0) / values.length;
}

function panelNodes({ name, values, color, shares }, place, edges, highest, { left, right, xScale }) {
  const { base, tip } = place;
  const yScale = linearScale([0, highest], [base, tip]);
  const nodes = [];
  for (const tick of niceTicks(0, highest, 2)) {
    const y = yScale(tick);
    if (tick === 0 && tip > base) continue; // the panel above has that line
    nodes.push(svgElement("path", { class: tick === 0 ? "chart-zero" : "chart-grid", d: `M${left} ${y}H${right}` }));
    const at = { class: "chart-tick", x: left - 6, y: y + 4, "text-anchor": "end" };
    nodes.push(svgElement("text", at, `${formatNumber(tick * 100)}%`));
  }
  for (const [bin, share] of shares.entries()) {
    if (share === 0) continue;
    const x = xScale(edges[bin]);
    const size = { x, width: Math.max(1, xScale(edges[bin + 1]) - x - 1), height: Math.abs(yScale(share) - base) };
    nodes.push(svgElement("rect", { class: "chart-bar", y: Math.min(base, yScale(share)), fill: color, ...size }));
  }
  let facts = "no values";
  if (values.length) {
    const found = meanOfValues(values);
    const mean = Math.abs(found) < 1e-6 * Math.max(...values.map(Math.abs)) ? 0 : found; // a rounding error
    facts = `${countOf(values.length, "value")}, mean ${formatNumber(mean)}`;
    nodes.push(svgElement("path", { class: "chart-mean", d: `M${xScale(mean)} ${base}V${tip}` }));
    const there = `translate(${xScale(mean)} ${tip})`;
    nodes.push(svgElement("path", { class: "chart-mean-tip", d: shapePath("diamond", 7), transform: there }));
  }
  const shown = shortenedText(name, right - left - 28 - textWidth(facts), BOLD_TEXT);
  nodes.push(svgElement("rect", { x: left, y: place.name - 10, width: 10, height: 10, rx: 2, fill: color }));
  nodes.push(svgElement("text", { x: left + 16, y: place.name }, svgElement("title", {}, name),
    svgElement("tspan", { class: "chart-name-selected" }, shown),
    svgElement("tspan", { class: "chart-tick", dx: 8 }, facts)));
  return nodes;
}

function binReader(panels, edges, xTitle, axes, chart) {
  const middles = edges.slice(1).map((edge, bin) => axes.xScale((edge + edges[bin]) / 2));
  return valueReader({
    label: xTitle || "Values", count: middles.length, start: 0, ...plotReading(axes, middles),
    marks: (bin) => [svgElement("rect", {
      class: "chart-reading-bin", x: axes.xScale(edges[bin]), y: axes.top, height: axes.bottom - axes.top,
      width: axes.xScale(edges[bin + 1]) - axes.xScale(edges[bin]),
    })],
    heading: (bin) => `${formatNumber(edges[bin])} to ${formatNumber(edges[bin + 1])}`,
    rows: (bin) => panels.map(({ name, color, values, shares }) => ({
      name, color, shape: "square",
      text: `${formatNumber(shares[bin] * 100)}% (${formatNumber(Math.round(shares[bin] * values.length))})`,
    })),
  }, chart);
}
