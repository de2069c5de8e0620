"use strict";
// The run over its updates: how each role did, what carried the updates, weights, and health.

function courseView(context) {
  const { run } = context;
  const { course } = run;
  const parts = [];
  if (course.version.length === 0) parts.push(notice("This run has no audit records, so it has no course over updates."));
  else {
    parts.push(carriedFigure(context), performanceFigure(context), groupReturnsFigure(context));
    const weights = weightsFigure(context);
    if (weights) parts.push(weights);
    parts.push(element("div", { class: "two" }, levelsFigure(context), balanceFigure(context)));
    parts.push(element("div", { class: "two" }, ...healthFigures(context)));
  }
  if (run.evaluations.length > 0) parts.push(evaluationTable(run));
  parts.push(...opponentsOverUpdates(context));
  if (context.trace) parts.push(opponentsFigure(context));
  return parts.filter((part) => part !== null);
}

const selectedPlace = ({ run, trace }) => {
  const place = run.course.version.indexOf(trace?.version ?? -1);
  return place < 0 ? null : place;
};

const goToUpdate = ({ run, choose }) => (place) => choose({ update: run.course.version[place], view: "course" });

function performanceFigure(context) {
  const { run, choice, choose } = context;
  const options = [{ value: "reward", label: "reward" }, ...run.measures.map(({ name, title }) => ({ value: name, label:
    title }))];
  const measure = options.some(({ value }) => value === choice.measure) ? choice.measure : options[0].value;
  const title = options.find(({ value }) => value === measure).label;
  const series = rolesOfCourse(run).map(({ name, label, color }) => ({
    name: label, color, values: smoothed(run.course.roles[name][measure] ?? []),
  }));
  const figure = courseFigure(context, `${capitalized(title)} by ${run.role_name}`,
    "Mean of each update's episodes, smoothed over a tenth of the run. Press a point to open that update.", series, title);
  figure.querySelector("p").after(dropdown("Measure", options, measure, (next) => choose({ measure: next })));
  return figure;
}

const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const rolesOfCourse = (run) => run.roles.filter(({ name }) => name in run.course.roles);

function courseFigure(context, title, note, series, yTitle) {
  const x = context.run.course.version;
  const last = series.map(({ name, values }) => `${name} ${formatNumber(lastNumber(values))}`).join(", ");
  return figureOf({
    title, note, chart: lineChart({ x, series, xTitle: "update", yTitle, selected: selectedPlace(context), onSelect:
      goToUpdate(context) }), label: `${title}; at the end ${last}.`,
    table: { head: ["Update", ...series.map(({ name }) => name)],
      rows: x.map((version, place) => [String(version), ...series.map(({ values }) => values[place] ?? null)]) },
  });
}

const lastNumber = (values) => values.findLast((value) => Number.isFinite(value));

function smoothed(values) {
  const half = Math.floor(values.length / 20);
  return values.map((_, place) => {
    const near = values.slice(Math.max(0, place - half), place + half + 1).filter(Number.isFinite);
    return near.length > 0 ? meanOf(near) : null;
  });
}

// Which role carried an update: the sum of its advantages' sizes.
function carriedFigure(context) {
  const { run, trace, trained } = context;
  const series = rolesOfCourse(run).map(({ name, label, color }) => ({
    name: label, color, values: run.course.spread[name].map((value) => value ?? 0),
  }));
  const parts = [];
  if (trace && trained.problem === null) {
    const pulls = pullByRole(trained);
    const all = sumOf([...pulls.values()]);
    const total = all || 1;
    const items = [...pulls].sort(([, left], [, right]) => right - left).map(([role, value]) => ({
      name: roleOf(run, role).label, value: tenth((100 * value) / total), color: roleOf(run, role).color,
    }));
    parts.push(element("div", { class: "carried" },
      element("p", { class: "headline" }, all > 0 ? `${items[0].name} carried update ${trace.version}: ${
        formatNumber(items[0].value)} % of the pull, where an equal share is ${formatNumber(tenth(100 / items.length))} %.${
        weightOfFirst(context, [...pulls].sort(([, left], [, right]) => right - left)[0][0])}` : `Nothing carried update ${trace.version}: all its advantages are 0.`),
      all > 0 ? bars({ items, unit: "%" }) : null));
  }
  if (series.some(({ values }) => values.some((value) => value > 0))) {
    parts.push(stackedAreas({ x: run.course.version, series, xTitle: "update", yTitle: "sum of |advantage|",
      selected: selectedPlace(context), onSelect: goToUpdate(context) }));
  }
  return element("figure", { class: "card padded", id: "carried" },
    element("h3", {}, `Which ${run.role_name} carried the update?`),
    element("p", { class: "soft" }, "A role's pull is the sum of the sizes of its advantages, whichever way they point: " +
      "how much of the update is about its episodes, not how well it did."), ...parts);
}

const tenth = (value) => Math.round(10 * value) / 10;

// A group weight is part of every advantage, and often the reason; empty where there are none.
function weightOfFirst({ trained }, role) {
  if (trained.settings.grouping.group_weights === "none") return "";
  const sample = trained.samples.findIndex((each) => each.role === role);
  return ` Its group weight of ${formatNumber(trained.weightOfSample[sample])} is part of that; 1 is the mean.`;
}

function weightsFigure(context) {
  const { run } = context;
  const names = Object.keys(run.course.weights);
  if (names.length === 0) return null;
  const series = names.map((name) => ({ name: roleOf(run, name).label, color: roleOf(run, name).color, values:
    run.course.weights[name].map((value) =>
    value ?? 0) }));
  return figureOf({
    title: "Group weights", note: "The factor on each group's advantages, stacked; their mean over episodes is 1.",
    chart: stackedAreas({ x: run.course.version, series, xTitle: "update", yTitle: "weight", selected:
      selectedPlace(context), onSelect: goToUpdate(context) }),
    label: `Weights of ${counted(names.length, "group")} over updates.`,
    table: { head: ["Update", ...names], rows: run.course.version.map((version, place) => [String(version),
      ...series.map(({ values }) => values[place])]) },
  });
}

function levelsFigure(context) {
  const { run } = context;
  const series = Object.entries(run.course.levels).map(([name, values], place) => ({
    name, values, color: CATEGORY_COLORS[place % CATEGORY_COLORS.length],
  }));
  return figureOf({
    title: "Which key decided", note: "Samples whose advantage each key of the chain decided." + (
      RUNNING_LEVEL in run.course.levels ? " Those under “running” found no group that is large enough." : ""),
    chart: stackedAreas({ x: run.course.version, series, xTitle: "update", yTitle: "samples", selected:
      selectedPlace(context), onSelect: goToUpdate(context) }),
    label: `Samples by level: ${series.map(({ name }) => name).join(", ")}.`,
    table: { head: ["Update", ...series.map(({ name }) => name)], rows: run.course.version.map((version, place) =>
      [String(version), ...series.map(({ values }) => values[place])]) },
  });
}

// The worst role's reward beside the best one's: whether training leaves some behind.
function balanceFigure(context) {
  const { run } = context;
  const rewards = rolesOfCourse(run).map(({ name }) => smoothed(run.course.roles[name].reward));
  const at = (place, fold) => {
    const found = rewards.map((values) => values[place]).filter(Number.isFinite);
    return found.length > 0 ? fold(found) : null;
  };
  const places = [...run.course.version.keys()];
  const series = [
    { name: "best", values: places.map((place) => at(place, highestOf)), color: "var(--line-ITALY)" },
    { name: "mean", values: places.map((place) => at(place, meanOf)), color: "var(--line-ALL)" },
    { name: "worst", values: places.map((place) => at(place, lowestOf)), color: "var(--line-AUSTRIA)" },
  ];
  return courseFigure(context, "Balance", `The best, mean and worst ${run.role_name} by reward, smoothed over a tenth of the run.`, series, "reward");
}

const HEALTH = [
  ["Convergence", "Entropy of the policy and its divergence from the behaviour policy, in nats.", "nats",
    ["entropy", "approx_kl", "reference_kl"]],
  ["Gradient", "Norm of the gradient before clipping.", "norm", ["grad_norm"]],
  ["Signal", "Samples in groups without variance, and samples that fell back.", "share",
    ["zero_variance_fraction", "fallback_fraction", "running_baseline_fraction"]],
  ["Clipping", "Share of tokens whose gradient a clip removed.", "share", ["clip_fraction_low", "clip_fraction_high", "clip_fraction_dual"]],
  ["Staleness", "Updates between the weights that sampled and those that learned.", "updates",
    ["staleness_mean", "staleness_max"]],
  ["Conflict", "Pairs of groups whose gradients point apart, and their mean cosine.", "",
    ["gradient_conflict_fraction", "gradient_cosine"]],
];

function healthFigures(context) {
  const { metrics } = context.run.course;
  return HEALTH.flatMap(([title, note, unit, names]) => {
    const series = names.filter((name) => name in metrics).map((name, place) => ({
      name: name.replaceAll("_", " "), values: metrics[name], color: CATEGORY_COLORS[place],
    }));
    return series.length > 0 ? [courseFigure(context, title, note, series, unit)] : [];
  });
}

function evaluationTable(run) {
  const rows = run.evaluations.map(({ update, against, value, interval, games }) => ({
    cells: [String(update), against, value, interval ? `${formatNumber(interval[0])} to ${formatNumber(interval[1])}` : null,
      games],
  }));
  return element("details", { class: "card padded" }, element("summary", {}, "Evaluations"),
    dataTable(["Update", "Against", "Result", "95 % interval", "Games"], rows, { caption: "Evaluations of the run" }));
}
