"use strict";
// Who sat at the other seats, over the run and in one update.

// Who held the other seats over the run, and how the learner did against each.
function opponentsOverUpdates(context) {
  const { run } = context;
  const { seats = {}, reward = {} } = run.course.opponents ?? {};
  const names = Object.keys(seats);
  if (names.length === 0) return [];
  const color = (place) => CATEGORY_COLORS[place % CATEGORY_COLORS.length];
  const shares = names.map((name, place) => ({ name, color: color(place), values: seats[name].map((value) => value ?? 0) }));
  const held = figureOf({
    title: "Opponents", note: "The share of the other seats that each held.",
    chart: stackedAreas({ x: run.course.version, series: shares, xTitle: "update", yTitle: "share of seats", selected:
      selectedPlace(context), onSelect: goToUpdate(context) }),
    label: `Share of the other seats over updates: ${names.join(", ")}.`,
    table: { head: ["Update", ...names], rows: run.course.version.map((version, place) => [String(version),
      ...names.map((name) => seats[name][place])]) },
  });
  const against = courseFigure(context, "Reward against each opponent",
    "Mean reward of the update's episodes, each weighted by the seats that the opponent held; smoothed.",
    names.map((name, place) => ({ name, color: color(place), values: smoothed(reward[name]) })), "reward");
  return [element("div", { class: "two" }, held, against)];
}

function opponentsFigure({ trace, run }) {
  if (!trace.episodes.opponents) return null;
  const counts = new Map();
  for (const name of trace.episodes.opponents) counts.set(name ?? "unknown", (counts.get(name ?? "unknown") ?? 0) + 1);
  const items = [...counts].sort(([, left], [, right]) => right - left).slice(0, 20).map(([name, value]) => ({
    name, value, color: "var(--soft)",
  }));
  return figureOf({
    title: `Opponents in update ${trace.version}`, note: "Episodes by who sat at the other seats.",
    chart: bars({ items, unit: "episodes" }), label: items.map(({ name, value }) => `${name}: ${value}`).join(", "),
    table: { head: ["Opponents", "Episodes"], rows: items.map(({ name, value }) => [name, value]) },
  });
}
