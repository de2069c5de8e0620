"use strict";
// Elements, scales and numbers, which every chart needs.
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const WHOLE_NUMBERS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const FOUR_DIGITS = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const THREE_DIGITS = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

// An attribute that is null, undefined or false is left out, and so is a child that is null.
function element(name, attributes, ...children) {
  return completeElement(document.createElement(name), attributes, children);
}

function svgElement(name, attributes, ...children) {
  return completeElement(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

function completeElement(node, attributes, children) {
  setAttributes(node, attributes ?? {});
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
}

// About ``count`` multiples of 1, 2 or 5 times a power of ten from low to high.
function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0 && Number.isFinite(rough))) return low === high ? [low] : [low, high];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  if (last < first) return [low];
  return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(15)));
}

// A domain without width is drawn in the middle of the range.
function linearScale([d0, d1], [r0, r1]) {
  const scale = (value) => (d0 === d1 ? (r0 + r1) / 2 : r0 + ((value - d0) / (d1 - d0)) * (r1 - r0));
  scale.invert = (position) => (r0 === r1 ? d0 : d0 + ((position - r0) / (r1 - r0)) * (d1 - d0));
  return scale;
}

// Three significant digits below 1, else four, and never fewer than the whole part has; an en dash for no number.
function formatNumber(value) {
  if (!Number.isFinite(value)) return "\u2013";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return withMinusSigns(value.toExponential(2).replace("+", ""));
  const format = size >= 1000 ? WHOLE_NUMBERS : size >= 1 ? FOUR_DIGITS : THREE_DIGITS;
  return withMinusSigns(format.format(value || 0));
}

// "1 value", "2 values".
function countOf(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function withMinusSigns(text) {
  return text.replaceAll("-", "\u2212");
}

// The labels of ticks: all with the decimals that their distance needs; years have no separator.
function tickLabels(ticks) {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 0;
  const largest = Math.max(...ticks.map(Math.abs));
  if (step === 0 || largest >= 1e15 || step < 1e-9) return ticks.map(axisNumber);
  const decimals = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const format = new Intl.NumberFormat("en-US", { ...digits, useGrouping: "min2" });
  return ticks.map((tick) => withMinusSigns(format.format(tick || 0)));
}

// A place on an axis: a number whose four digits may be a year's.
function axisNumber(value) {
  const mayBeYear = Number.isInteger(value) && Math.abs(value) < 10000;
  return mayBeYear ? withMinusSigns(String(value)) : formatNumber(value);
}

// The smallest and largest of the numbers among ``values``; null if there are none.
function extentOf(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : null;
}

// The extent with a little room around it, and with a width where all values are equal.
function roomyExtent(values) {
  const [low, high] = extentOf(values) ?? [0, 1];
  const room = low === high ? Math.max(0.5, Math.abs(low) * 0.05) : (high - low) * 0.04;
  return [low - room, high + room];
}

function clampedTo(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

function reducedMotion() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
