"use strict";
// What colours the dots: their advantage, their role, or a characteristic.

function colorOptions(trace) {
  const facts = Object.keys(trace.batch.episodes.facts).filter((name) => distinct(trace.batch.episodes.facts[name]) > 1);
  const ofTurns = Object.keys(trace.batch.turns.facts).filter((name) => distinct(trace.batch.turns.facts[name]) > 1);
  const named = [...new Set([...facts, ...ofTurns])].map((name) => ({ value: `fact:${name}`, label: name }));
  const opponents = trace.episodes.opponents ? [{ value: "opponents", label: "opponents" }] : [];
  return [{ value: "advantage", label: "advantage" }, { value: "role", label: "role" }, ...opponents, ...named];
}

const distinct = (values) => new Set(values).size;

// A function from a sample to { color }.
function dotPaint({ judged, choice, trace, run }) {
  if (choice.color === "role") return (sample) => ({ color: roleOf(run, judged.samples[sample].role).color });
  const value = colorValue({ judged, choice, trace });
  if (value === null) {
    const sizes = judged.advantages.map(Math.abs).sort((left, right) => left - right);
    const large = sizes[Math.floor(0.95 * (sizes.length - 1))] || sizes.at(-1) || 1; // one far off would fade the others
    return (sample) => ({ color: advantageColor(judged.advantages[sample] / large) });
  }
  const names = categoryNames(judged, value);
  return (sample) => ({ color: categoryColor(names.indexOf(value(sample))) });
}

// A function from a sample to the text that colours it; null where its advantage does.
function colorValue({ judged, choice, trace }) {
  if (choice.color === "opponents" && trace.episodes.opponents) {
    return (sample) => trace.episodes.opponents[judged.samples[sample].episode] ?? "unknown";
  }
  if (!choice.color.startsWith("fact:")) return null;
  const name = choice.color.slice(5);
  return (sample) => {
    const { episode, turn } = judged.samples[sample];
    return String(recordedFact(trace, name, episode, turn ?? trace.firstTurn[episode]) ?? "none");
  };
}

// The values by how often they occur; those after the seventh share a colour.
function categoryNames(judged, value) {
  const counts = new Map();
  for (const sample of judged.samples.keys()) counts.set(value(sample), (counts.get(value(sample)) ?? 0) + 1);
  return [...counts.keys()].sort((left, right) => counts.get(right) - counts.get(left));
}

const CATEGORY_COLORS = ["FRANCE", "TURKEY", "ITALY", "ENGLAND", "RUSSIA", "AUSTRIA", "GERMANY"].map((name) =>
  `var(--line-${name})`);

const categoryColor = (place) => CATEGORY_COLORS[place] ?? "var(--soft)";

// From orange (below the baseline) through the ink's grey to blue (above it).
function advantageColor(share) {
  const size = Math.round(Math.min(1, Math.abs(share) ** 0.6) * 100);
  return `color-mix(in oklab, var(${share < 0 ? "--below" : "--above"}) ${size}%, var(--none))`;
}

function colorLegend({ judged, choice, trace, run }) {
  const value = colorValue({ judged, choice, trace });
  if (choice.color === "role") {
    const present = run.roles.filter(({ name }) => trace.episodes.role.includes(name));
    return legendOf(present.map(({ name, label, color }) => ({ label, color, shape: shapeOfRole(run, name) })));
  }
  if (value === null) {
    const steps = [[-1, "below its baseline"], [0, "advantage 0"], [1, "above its baseline"]];
    return legendOf(steps.map(([share, label]) => ({ label, color: advantageColor(share) })));
  }
  const names = categoryNames(judged, value);
  const items = names.slice(0, CATEGORY_COLORS.length).map((label, place) => ({ label, color: categoryColor(place) }));
  if (names.length > items.length) items.push({ label: `${names.length - items.length} more`, color: "var(--soft)" });
  return legendOf(items);
}

const shapeOfRole = (run, role) =>
  MARK_SHAPES[run.roles.findIndex(({ name }) => name === role) % MARK_SHAPES.length] ?? "circle";

function legendOf(items) {
  const sample = ({ color, shape }) => svgElement("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden":
    "true" }, svgElement("path", { d: shapePath(shape ?? "circle", 10), fill: color }));
  return element("ul", { class: "legend" }, ...items.map((item) =>
    element("li", {}, sample(item), element("span", { title: item.label }, item.label))));
}
