"use strict";
// Advantages before and after grouping, by group, and under two strategies.

function advantagesView(context) {
  const { judged } = context;
  const parts = [strategyControls(context)];
  if (judged.problem !== null) return parts;
  parts.push(...comparisonParts(context));
  parts.push(element("div", { class: "two" }, beforeAfterFigure(context), globalFigure(context)));
  parts.push(boxFigure(context), heatFigure(context), returnAgainstAdvantage(context));
  return parts;
}

function beforeAfterFigure({ judged }) {
  const panels = [
    { name: "returns, before", values: judged.returns, color: "var(--soft)" },
    { name: "advantages, after", values: judged.advantages, color: "var(--accent)" },
  ];
  return histogramFigure("Before and after", "Returns as they were earned, and what is left of them after grouping." +
    meanInWords(judged), panels, "value");
}

// What makes the advantages' mean another than 0; empty where it is 0.
function meanInWords({ advantages }) {
  if (exactZero(meanOf(advantages)) === 0) return "";
  return " The advantages' mean is not 0: that happens where a group's mean also counts members that a finer group judges, " +
    "where a baseline is not the group's plain mean, and where weights divide a group.";
}

// The same batch against one global mean and against its groups' means.
function globalFigure({ judged, choice, run, trace }) {
  const global = judgedBy("none", choice, run, trace);
  const panels = [
    { name: "one global mean", values: global.advantages, color: "var(--soft)" },
    { name: judged.strategy.label, values: judged.advantages, color: "var(--accent)" },
  ];
  return histogramFigure("Global against group normalisation",
    "With a global mean, advantages hold what a role or a phase earns anyway; groups take that out.", panels, "advantage");
}

function histogramFigure(title, note, panels, xTitle) {
  const rows = panels.map(({ name, values }) => [name, exactZero(meanOf(values)), Math.sqrt(varianceOf(values)), lowestOf(values),
    highestOf(values)]);
  return figureOf({
    title, note, chart: histograms({ panels, xTitle }),
    label: rows.map(([name, mean, std]) => `${name}: mean ${formatNumber(mean)}, deviation ${formatNumber(std)}`).join("; "),
    table: { head: ["Values", "Mean", "Deviation", "Lowest", "Highest"], rows },
  });
}

function boxFigure(context) {
  const { judged, choice, choose, run } = context;
  const columns = formationColumns(context, shownRole(context));
  const left = groupsOfRole(judged, shownRole(context)).length - columns.length;
  const groups = columns.map(({ index, name }) => ({
    group: judged.names[index], name, values: pick(judged.advantages, judged.groups[index].decided),
    color: roleOf(run, judged.samples[judged.groups[index].members[0]].role).color,
    selected: choice.group === judged.names[index],
  }));
  return figureOf({
    title: `Advantages by group: ${roleTitle(context)}`, note: "Quartiles, whiskers of 1.5 interquartile ranges, outliers, and the mean as a diamond." +
      (left > 0 ? ` ${counted(left, "smaller group")} would not fit.` : ""),
    chart: boxPlots({ groups, yTitle: "advantage", onSelect: (place) => choose({ group: groups[place].group, episode: null }) }),
    label: `Advantages of ${counted(groups.length, "group")}.`,
    table: {
      head: ["Group", "Samples", "Mean", "Lowest", "Highest"],
      rows: groups.map(({ name, values }) => [name, values.length, meanOf(values), lowestOf(values), highestOf(values)]),
    },
  });
}

const MOST_HEAT_COLUMNS = 40; // of the heat map

// Roles by phase, or by group where samples are episodes.
function heatFigure({ judged, trace, run, choose }) {
  const roles = run.roles.filter(({ name }) => trace.episodes.role.includes(name));
  const columnOf = (sample) => {
    const { turn } = judged.samples[sample];
    return turn === null ? judged.batch.episodes.block[judged.samples[sample].episode] : trace.turns.phase[turn];
  };
  const all = [...new Set([...judged.samples.keys()].map(columnOf))].sort(comparePhases);
  const columns = all.slice(0, MOST_HEAT_COLUMNS);
  const more = all.length > columns.length ? ` ${formatNumber(all.length - columns.length)} more columns are not shown.` : "";
  const cells = new Map();
  for (const sample of judged.samples.keys()) {
    const name = `${judged.samples[sample].role}/${columnOf(sample)}`;
    if (!cells.has(name)) cells.set(name, []);
    cells.get(name).push(sample);
  }
  const values = roles.map(({ name }) => columns.map((column) => {
    const own = cells.get(`${name}/${column}`);
    return own ? exactZero(meanOf(pick(judged.advantages, own))) : null;
  }));
  return figureOf({
    title: "Mean advantage by role", note: "Mean advantage by role and " + (judged.samplesAreTurns ? "phase" : "block") +
      ". Where groups are compared with their own mean, that mean is 0 here, so what is left is what the strategy does " +
      `not compare away.${more}`,
    chart: heatMap({
      rows: roles.map(({ label }) => label), columns, values, xTitle: judged.samplesAreTurns ? "phase" : "block",
      yTitle: run.role_name, symmetric: true,
      onSelect: (row, column) => {
        const own = cells.get(`${roles[row].name}/${columns[column]}`);
        if (own) choose({ group: judged.names[judged.groupOfSample[own[0]]], episode: null, view: "groups" });
      },
    }),
    label: `Mean advantages of ${counted(roles.length, "role")} in ${counted(columns.length, "column")}.`,
    table: { head: [run.role_name, ...columns], rows: roles.map(({ label }, row) => [label, ...values[row]]) },
  });
}

// A mean of values that add up to 0 is left with a rounding error.
const exactZero = (value) => (Math.abs(value) < 1e-6 ? 0 : value);

// Phases of games by year, season and kind; other names by their numbers.
function comparePhases(left, right) {
  const order = (name) => {
    const [, season, year, kind] = /^([SFW])(\d+)([MRA])$/.exec(name) ?? [];
    return year === undefined ? null : Number(year) * 9 + "SFW".indexOf(season) * 3 + "MRA".indexOf(kind);
  };
  const [first, second] = [order(left), order(right)];
  return first !== null && second !== null ? first - second : left.localeCompare(right, "en", { numeric: true });
}

function returnAgainstAdvantage(context) {
  const { judged, choose, trace, run, choice } = context;
  const step = Math.max(1, judged.samples.length / 1000);
  const chosen = Array.from({ length: Math.min(1000, judged.samples.length) }, (_, place) => Math.floor(place * step));
  const paint = dotPaint({ judged, choice: { ...choice, color: "role" }, trace, run });
  const points = chosen.map((sample) => ({
    id: sample, x: judged.returns[sample], y: judged.advantages[sample], group: null, size: 6,
    shape: shapeOfRole(run, judged.samples[sample].role), ...paint(sample), label: sampleLabel(context, sample),
  }));
  const options = {
    points, layout: "scatter", groups: [], boundaries: [], xTitle: "return (before)", yTitle: "advantage (after)",
    selected: selectedSample(context),
    onSelect: (sample) => choose({ episode: judged.samples[sample].episode, turn: judged.samples[sample].turn,
      group: judged.names[judged.groupOfSample[sample]] }),
  };
  const about = `${run.index}/${trace.version}/${judged.samplesAreTurns}`;
  const field = keptField(context, "scatter", about, options);
  return element("figure", { class: "card padded" }, element("h3", {}, "Return against advantage"),
    element("p", { class: "soft" }, "Each role has its colour and shape. A high return whose advantage is below 0 did " +
      "well, but worse than its group."), colorLegend({ ...context, choice: { ...choice, color: "role" } }),
    field.node);
}

function comparisonParts(context) {
  const { judged, other, choice, choose, trace, run } = context;
  if (!choice.compare) return [];
  if (other.problem !== null) return [notice(other.problem, "warning")];
  const found = agreementOf(judged, other);
  const gradients = gradientAgreement(judged, other, trace);
  if (found === null) return [notice("The two strategies have other samples, so they cannot be compared one by one.", "warning")];
  const largest = [...found.changed].sort((left, right) => changeOf(judged, other, right) - changeOf(judged, other, left));
  const rows = largest.map((sample) => ({
    cells: [sampleName(context, sample), judged.returns[sample], judged.advantages[sample], other.advantages[sample]],
    onPress: () => choose({ episode: judged.samples[sample].episode, turn: judged.samples[sample].turn, view: "formulas" }),
  }));
  const panels = [judged, other].map((each, place) => ({ name: each.strategy.label, values: each.advantages,
    color: place ? "var(--line-TURKEY)" : "var(--accent)" }));
  return [section(`“${judged.strategy.label}” against “${other.strategy.label}”`,
    element("div", { class: "card padded", id: "comparison" },
      element("p", { class: "headline", id: "comparison-text" }, choice.strategy === "trained" &&
        choice.other === "unphased" ? `The update had groups by phase already. Leaving them out ${flipText(found)}` :
        `“${other.strategy.label}” in place of “${judged.strategy.label}” ${flipText(found)}`),
      figures([
        ["Samples with the other sign", `${formatNumber(found.changed.length)} of ${formatNumber(found.samples)} (${
          percent(found.changed.length / found.samples)})`],
        ["Samples with the same sign", `${formatNumber(found.same)} (${percent(found.same / found.samples)})`],
        ["Samples whose advantage becomes 0", found.lost], ["Samples whose advantage was 0 and no longer is", found.gained],
        ["Samples whose advantage is 0 under both", found.zero],
        ["Cosine of the gradients by log-probability", gradients?.cosine],
        ["Size of the second gradient, as a multiple of the first", gradients?.magnitude],
        ["Cosine of the two lists of advantages", found.cosine],
        ["Size of the second list, as a multiple of the first", found.magnitude],
      ]),
      notice("The gradients are those of the loss's first pass by the log-probability of each trained token: advantage " +
        "times weight, before clips and corrections. They do not go through the network. A cosine of 1 means that both " +
        "push every token alike. For which of two strategies is better, see “Which grouping predicts returns?” under " +
        "“Groups”."),
      dataTable([judged.samplesAreTurns ? "Turn" : "Episode", "Return", judged.strategy.label, other.strategy.label], rows,
        { caption: "Samples that change sign, largest change first" })),
    histogramFigure("Both on the same batch", "Advantages under the two strategies.", panels, "advantage"))];
}

const changeOf = (judged, other, sample) => Math.abs(judged.advantages[sample] - other.advantages[sample]);

const flipText = ({ changed, samples }) =>
  `flips the sign of ${counted(changed.length, "sample")} (${percent(changed.length / samples)}).`;
