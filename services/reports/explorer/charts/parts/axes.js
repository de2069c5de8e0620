"use strict";
// The frame of a plot: room for titles and labels, scales, grid lines and ticks.
const PLOT_RIGHT_ROOM = 14; // pixels
const AXIS_LABEL_HEIGHT = 20;

function plotHeight(width) {
  return Math.round(clampedTo(width * 0.42, 220, 340));
}

// Scales and nodes of a plot. Without ``xDomain`` the x axis is the caller's, in ``bottomRoom`` pixels below the plot.
function plotAxes({ width, height, xDomain, yDomain, xTitle, yTitle, bottomRoom = AXIS_LABEL_HEIGHT }) {
  const top = yTitle ? 28 : 12;
  const bottom = height - bottomRoom - (xTitle ? AXIS_LABEL_HEIGHT : 0);
  const yTicks = niceTicks(...yDomain, Math.max(2, Math.floor((bottom - top) / 48)));
  const yLabels = tickLabels(yTicks);
  const left = Math.ceil(widestText(yLabels)) + 10;
  const right = width - PLOT_RIGHT_ROOM;
  const yScale = linearScale(yDomain, [bottom, top]);
  const nodes = [];
  for (const [place, tick] of yTicks.entries()) {
    const y = yScale(tick);
    nodes.push(svgElement("path", { class: tick === 0 ? "chart-zero" : "chart-grid", d: `M${left} ${y}H${right}` }));
    const at = { x: left - 6, y: y + 4, "text-anchor": "end" };
    nodes.push(svgElement("text", { class: "chart-tick", ...at }, yLabels[place]));
  }
  if (yTitle) nodes.push(fittedText(yTitle, width, { class: "chart-axis-title", x: 0, y: 13 }));
  const axes = { left, right, top, bottom, yScale, nodes };
  if (xDomain) {
    axes.xScale = linearScale(xDomain, [left, right]);
    nodes.push(...xAxisNodes(axes, width, xDomain));
  }
  if (xTitle) nodes.push(xTitleNode(xTitle, axes, height));
  return axes;
}

function xAxisNodes({ left, right, bottom, xScale }, width, xDomain) {
  const ticksApart = (pixels) => niceTicks(...xDomain, Math.max(2, Math.floor((right - left) / pixels)));
  const ticks = ticksApart(Math.max(60, widestText(tickLabels(ticksApart(60))) + 16));
  const labels = tickLabels(ticks);
  const nodes = [svgElement("path", { class: "chart-axis", d: `M${left} ${bottom}H${right}` })];
  for (const [place, tick] of ticks.entries()) {
    const half = textWidth(labels[place]) / 2;
    const x = clampedTo(xScale(tick), half, width - half);
    nodes.push(svgElement("path", { class: "chart-axis", d: `M${xScale(tick)} ${bottom}v5` }));
    nodes.push(svgElement("text", { class: "chart-tick", x, y: bottom + 17, "text-anchor": "middle" }, labels[place]));
  }
  return nodes;
}

function xTitleNode(title, { left, right }, height) {
  const at = { class: "chart-axis-title", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" };
  return fittedText(title, right - left, at);
}
