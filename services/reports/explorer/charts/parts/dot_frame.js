"use strict";
// What lies behind the dots of either layout: axes, or the columns of groups with their means.
const LANE_SHARE = 0.46; // of a column's width, to either side of its middle

// ``domain`` is that of the boundaries, null where neither points nor boundaries have an x.
function dotFrame({ points, layout, groups, boundaries, xTitle, yTitle }, width) {
  const height = Math.round(clampedTo(width * 0.5, 300, 440));
  const inGroups = layout === "groups";
  const yDomain = roomyExtent([...points.map((point) => point.y), ...groups.map((group) => group.mean)]);
  const known = extentOf(points.map((point) => point.x)) ?? extentOf(boundaries);
  const domain = known && withBoundaries(roomyExtent(known), boundaries);
  const style = columnNameStyle(groups, (width - 60) / Math.max(1, groups.length));
  const xAxis = inGroups ? { bottomRoom: style.height } : { xDomain: domain ?? [0, 1], xTitle };
  const axes = plotAxes({ width, height, yDomain, yTitle, ...xAxis });
  const columnWidth = (axes.right - axes.left) / Math.max(1, groups.length);
  const centers = groups.map((_, column) => axes.left + (column + 0.5) * columnWidth);
  const drawing = [...axes.nodes];
  if (inGroups) drawing.push(groupColumns(groups, style, centers, columnWidth, axes));
  if (points.length === 0) drawing.push(...emptyChart(width).drawing);
  const means = inGroups ? groupMeans(groups, centers, columnWidth * LANE_SHARE, axes.yScale) : [];
  return { height, axes, domain, columns: { width: columnWidth, centers }, drawing, means };
}

// A domain that is up to a quarter wider on either side, so that boundaries beside the points have their own places.
function withBoundaries([low, high], boundaries) {
  const room = (high - low) / 4;
  const inReach = boundaries.filter((value) => value >= low - room && value <= high + room);
  return extentOf([low, high, ...inReach]);
}

function groupColumns(groups, style, centers, columnWidth, { top, bottom }) {
  const half = columnWidth * LANE_SHARE;
  const lanes = groups.map(({ name, mean, note }, column) => {
    const title = svgElement("title", {}, [name, note, `mean ${formatNumber(mean)}`].filter(Boolean).join(", "));
    const box = { x: centers[column] - half, y: top, width: 2 * half, height: bottom - top, rx: 6 };
    return svgElement("rect", { class: "chart-lane", ...box }, title);
  });
  const names = columnNames(groups, style, centers, columnWidth, bottom);
  return svgElement("g", { class: "chart-groups" }, ...lanes, ...names);
}

// A line at the mean of each group, over the dots, with its value if all values have room.
function groupMeans(groups, centers, half, yScale) {
  const texts = groups.map(({ mean }) => formatNumber(mean));
  const named = widestText(texts) * 1.4 < 2 * half;
  return groups.flatMap(({ mean }, column) => {
    if (!Number.isFinite(mean)) return [];
    const [x, y] = [centers[column], yScale(mean)];
    const at = { class: "chart-halo", x: x + half, y: y - 5, "text-anchor": "end" };
    const line = svgElement("path", { class: "chart-group-mean", d: `M${x - half} ${y}h${2 * half}` });
    return named ? [line, svgElement("text", at, texts[column])] : [line];
  });
}
