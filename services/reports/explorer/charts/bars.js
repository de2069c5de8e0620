"use strict";
// Horizontal bars with their names and values as text, and an interval as a whisker.
const NARROW_BARS = 480; // pixels; a narrower chart has the names above the bars

// Items { name, value, color, interval? }, where a null value is unknown; ``onSelect`` gets an item's place.
function bars(options) {
  return makeChart("bars", options, drawBars);
}

function drawBars({ items, unit, onSelect }, width, chart) {
  if (items.length === 0) return emptyChart(width);
  const texts = items.map((item) => valueWithUnit(item.value, unit));
  const narrow = width < NARROW_BARS;
  const names = items.map((item) => String(item.name));
  const left = narrow ? 2 : Math.ceil(Math.min(widestText(names), width * 0.34)) + 12;
  const right = width - Math.ceil(Math.min(widestText(texts), width * 0.4)) - 14;
  const rowHeight = narrow ? 42 : 30;
  const [low, high] = extentOf([0, ...items.flatMap((item) => [item.value, ...(item.interval ?? [])])]);
  const scale = linearScale(low === high ? [0, 1] : [low, high], [left, right]);
  const height = items.length * rowHeight + 4;
  const drawing = [];
  const controls = [];
  for (const [place, item] of items.entries()) {
    const top = 2 + place * rowHeight;
    const bar = { top: narrow ? top + 20 : top + 6, height: 16 };
    const name = narrow ? { x: left, y: top + 14 } : { x: left - 8, y: top + 18, "text-anchor": "end" };
    drawing.push(fittedText(item.name, narrow ? width - 4 : left - 12, { class: "chart-name", ...name }));
    if (Number.isFinite(item.value)) drawing.push(...barNodes(item, bar, scale));
    drawing.push(svgElement("path", { class: "chart-zero", d: `M${scale(0)} ${bar.top - 4}v${bar.height + 8}` }));
    const value = { class: "chart-value", x: width - 4, y: bar.top + 12, "text-anchor": "end" };
    drawing.push(fittedText(texts[place], width * 0.4, value));
    controls.push(chartTarget({
      key: place, box: { x: 0, y: top, width, height: rowHeight - 2 }, label: barLabel(item, unit),
      onPress: onSelect && (() => onSelect(place)),
    }, chart));
  }
  return { height, drawing, controls };
}

function barNodes({ value, color, interval }, { top, height }, scale) {
  const [from, to] = [scale(Math.min(0, value)), scale(Math.max(0, value))];
  const size = { x: from, y: top, width: Math.max(1, to - from), height };
  const nodes = [svgElement("rect", { class: "chart-bar", ...size, rx: 2, fill: color })];
  if (interval) {
    const [low, high] = interval.map(scale);
    const middle = top + height / 2;
    const d = `M${low} ${middle}H${high}M${low} ${middle - 4}v8M${high} ${middle - 4}v8`;
    for (const look of ["chart-interval-back", "chart-interval"]) nodes.push(svgElement("path", { class: look, d }));
  }
  return nodes;
}

function valueWithUnit(value, unit) {
  if (!Number.isFinite(value) || !unit) return formatNumber(value);
  const word = value === 1 && unit.endsWith("s") ? unit.slice(0, -1) : unit;
  return `${formatNumber(value)}${unit === "%" ? "" : "\u00a0"}${word}`;
}

function barLabel({ name, value, interval }, unit) {
  const range = interval ? `, from ${interval.map(formatNumber).join(" to ")}` : "";
  return `${name}: ${Number.isFinite(value) ? valueWithUnit(value, unit) : "no value"}${range}`;
}
