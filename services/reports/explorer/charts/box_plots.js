"use strict";
// Distributions of groups side by side: quartiles, whiskers, outliers and the mean.
const WHISKER_REACH = 1.5; // interquartile ranges (Tukey 1977)

// Groups { name, values, color, selected }, where null is no value; ``onSelect`` gets a group's place.
function boxPlots(options) {
  return makeChart("boxes", options, drawBoxPlots);
}

function drawBoxPlots({ groups, yTitle, onSelect }, width, chart) {
  const all = groups.flatMap((group) => group.values).filter(Number.isFinite);
  if (all.length === 0) return emptyChart(width);
  const roughWidth = (width - 60) / groups.length;
  const style = columnNameStyle(groups, roughWidth);
  const height = plotHeight(width) + style.height;
  const axes = plotAxes({ width, height, yDomain: roomyExtent(all), yTitle, bottomRoom: style.height });
  const columnWidth = (axes.right - axes.left) / groups.length;
  const centers = groups.map((_, place) => axes.left + (place + 0.5) * columnWidth);
  const drawing = [...axes.nodes, ...columnNames(groups, style, centers, columnWidth, axes.bottom)];
  const controls = [];
  for (const [place, group] of groups.entries()) {
    const figures = fiveNumbers(group.values);
    const half = clampedTo(columnWidth * 0.34, 2, 36);
    if (figures) drawing.push(boxNode(group, figures, centers[place], half, axes.yScale));
    const box = { x: centers[place] - columnWidth / 2, y: axes.top, width: columnWidth, height: height - axes.top - 2 };
    controls.push(chartTarget({
      key: place, box, label: boxLabel(group, figures), pressed: Boolean(group.selected),
      onPress: onSelect && (() => onSelect(place)),
    }, chart));
  }
  return { height, drawing, controls };
}

// Quartiles by linear interpolation, the whiskers' ends, outliers and mean; null without values.
function fiveNumbers(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return null;
  const quantile = (share) => {
    const place = share * (sorted.length - 1);
    const below = sorted[Math.floor(place)];
    return below + (sorted[Math.ceil(place)] - below) * (place % 1);
  };
  const [lower, median, upper] = [0.25, 0.5, 0.75].map(quantile);
  const reach = WHISKER_REACH * (upper - lower);
  const within = sorted.filter((value) => value >= lower - reach && value <= upper + reach);
  const outliers = sorted.filter((value) => value < lower - reach || value > upper + reach);
  const ends = { low: Math.min(lower, within[0]), high: Math.max(upper, within.at(-1)) };
  return { lower, median, upper, ...ends, mean: meanOfValues(sorted), outliers, count: sorted.length };
}

function boxNode({ color, selected }, { lower, median, upper, low, high, mean, outliers }, x, half, yScale) {
  const whisker = (from, to) => `M${x} ${yScale(from)}V${yScale(to)}M${x - half / 2} ${yScale(to)}h${half}`;
  const distinct = new Set(outliers.map((value) => yScale(value).toFixed(1)));
  const outlier = (y) => svgElement("circle", { class: "chart-outlier", cx: x, cy: y, r: 2.5, stroke: color });
  const box = { x: x - half, y: yScale(upper), width: 2 * half, height: Math.max(1, yScale(lower) - yScale(upper)) };
  return svgElement("g", { class: selected ? "chart-box chart-box-selected" : "chart-box" },
    svgElement("path", { class: "chart-whisker", d: whisker(lower, low) + whisker(upper, high), stroke: color }),
    svgElement("rect", { ...box, stroke: color, fill: color }),
    svgElement("path", { class: "chart-median", d: `M${x - half} ${yScale(median)}h${2 * half}`, stroke: color }),
    ...[...distinct].map(outlier),
    svgElement("path", {
      class: "chart-mean-tip", d: shapePath("diamond", 9), transform: `translate(${x} ${yScale(mean)})`,
    }));
}

function boxLabel({ name }, figures) {
  if (figures === null) return `${name}: no values`;
  const { count, lower, median, upper, mean, outliers } = figures;
  return `${name}: ${countOf(count, "value")}, median ${formatNumber(median)}, mean ${formatNumber(mean)}, `
    + `middle half from ${formatNumber(lower)} to ${formatNumber(upper)}, ${countOf(outliers.length, "outlier")}`;
}
