"use strict";
// How the batch is grouped and judged on the page; the run itself stays as it was.

function strategyControls(context) {
  const { choice, choose, run, trace, judged } = context;
  const learner = settingsFor(choice.strategy, choice, run, trace).learner;
  const strategy = strategyOf(choice.strategy);
  const options = strategyOptions(run, trace, learner);
  const counts = strategy.clusters ? clusterNumbers(trace, strategy.id) : [2, 3, 4, 5, 6, 8];
  const usesNumber = strategy.clusters || strategy.number || strategy.id === "outcome";
  const numbers = numericFacts(trace);
  const inForce = { ...trace.grouping, returns: trace.learner.returns };
  const parts = [
    dropdown("Strategy", options, choice.strategy, (id) =>
      choose({ strategy: id, group: null, ...(id === "hand" ? { formed: false } : {}) }), { hint: strategyHint(strategy,
      trace) }),
    slider("Number of groups", counts, nearestNumber(counts, choice.number), (number) => choose({ number, cuts: null }),
      { disabled: !usesNumber, hint: usesNumber ? null : "for clusters, bins and boundaries" }),
  ];
  if (numbers.length > 0) {
    parts.push(dropdown("Characteristic", factOptions(numbers), factFor(choice, trace),
      (fact) => choose({ fact, cuts: null }), { hint: "x axis of the dots; divided by bins and boundaries" }));
  }
  parts.push(
    radios("Weighting", knownOptions("weights"),
      choice.weights ?? inForce.group_weights, (weights) =>
        choose({ weights: unlessOwn(weights, inForce.group_weights) })),
    element("details", { class: "more", "data-key": "finer", open: choice.returns || choice.baseline || choice.scale ? "" : null },
      element("summary", {}, "Baseline, scale and returns"),
      element("div", { class: "controls" }, ...finerControls(context, inForce))),
    toggle("Compare with another strategy", choice.compare, (compare) => choose({ compare })),
  );
  if (choice.compare) {
    parts.push(dropdown("Other strategy", options, choice.other, (other) => choose({ other }), { key: "Other" }));
  }
  const notes = [];
  if (strategy.warning) notes.push(notice(strategy.warning, "warning"));
  if (usesOutcome(choice, trace, strategy)) {
    notes.push(notice(`${factFor(choice, trace)} is known only afterwards: groups made from it bias the gradient.`,
      "warning"));
  }
  if (usesLaterTurns(choice, trace, strategy)) {
    notes.push(notice(`${factFor(choice, trace)} changes within an episode, and bins of equal size depend on later turns ` +
      "too. Entente refuses them in training, unless grouping.allow_outcome_keys is set.", "warning"));
  }
  const asked = choice.strategy === "trained" && judged.problem === null ? judged.settings.grouping.keys : trace.grouping.keys;
  if (asked.length !== trace.grouping.keys.length || asked.some((key, place) => key !== trace.grouping.keys[place])) {
    notes.push(notice(`The run's keys name facts that change within an episode. For whole episodes they are taken without these: ${
      trace.grouping.keys.join(", ")} becomes ${asked.join(", ")}.`));
  }
  const even = judged.problem === null ? evenWeights(context) : null;
  if (even !== null) notes.push(notice(even));
  if (choice.compare && choice.view === "groups") {
    notes.push(element("p", { class: "notice" }, "The comparison is on the next tab. ", button("Show the comparison", () =>
      choose({ view: "advantages" }))));
  }
  const same = judged.problem === null ? sameAsRoles(context) : null;
  if (same !== null) notes.push(notice(same));
  if (isWhatIf(choice) && choice.returns !== null && choice.returns !== trace.learner.returns) {
    notes.push(notice("The running means and the groups' progress of earlier updates are of the run's own kind of returns, " +
      "so they are left out here."));
  }
  if (judged.problem !== null) notes.push(notice(judged.problem, "warning"));
  return element("div", { class: "control-card card" }, element("div", { class: "controls" }, ...parts), ...notes);
}

const strategyHint = ({ note, clusters }, trace) => (clusters && trace.clusters?.features ?
  `${note} Here: ${trace.clusters.features.join(", ")}.` : note);

// A line on every view while one looks at what the update would have been; null otherwise.
function whatIfLine({ choice, choose }) {
  if (!isWhatIf(choice)) return null;
  return element("p", { class: "what-if", role: "status" }, "You changed the grouping or the loss: figures are what this " +
    "update would have been. ", button("Back to how it was", () =>
      choose({ ...AS_TRAINED, ...FIRST_DIVISION, group: null })));
}

// The strategies whose facts this world has.
function strategyOptions(run, trace, learner) {
  const known = STRATEGIES.filter(({ needs }) => needs.every((name) => knowsFact(run, trace, name)));
  return known.map((strategy) => ({
    value: strategy.id, label: strategy.label, problem: strategyProblem(strategy, trace, learner),
  }));
}

const clusterNumbers = (trace, kind) =>
  Object.keys(trace.clusters?.[kind] ?? { 4: [] }).map(Number).sort((left, right) => left - right);

const factOptions = (numbers) => numbers.map(({ name, level }) => ({
  value: name, label: level === "outcome" ? `${name} (known only afterwards)` : name,
}));

function usesOutcome(choice, trace, strategy) {
  if (!strategy.number) return false;
  return numericFacts(trace).some(({ name, level }) => name === factFor(choice, trace) && level === "outcome");
}

// Why a strategy other than that by role makes the same groups; null where it does not.
function sameAsRoles({ judged, choice, run, trace }) {
  if (["role", "none", "trained"].includes(choice.strategy)) return null;
  return dividesARole(judged) ? null : `Here these are the groups by ${run.role_name}: no ${run.role_name} has samples that ` +
    "differ in what would divide them, or the parts were too small.";
}

// Whether samples of one role are judged by different groups.
function dividesARole({ samples, groupOfSample }) {
  const groups = new Map();
  return samples.some(({ role }, sample) => {
    if (!groups.has(role)) groups.set(role, groupOfSample[sample]);
    return groups.get(role) !== groupOfSample[sample];
  });
}

// Why a weighting changes nothing; null where it does.
function evenWeights({ judged }) {
  const { group_weights: kind, weight_key: key, min_group_weight: low, max_group_weight: high } = judged.settings.grouping;
  const isMixed = judged.strategy.id === "none"; // one mean for all has no group weights
  if (kind === "none" || isMixed || judged.weightOfSample.some((weight) => Math.abs(weight - 1) > 1e-9)) return null;
  if (low === 1 || high === 1) return "All weights are 1: min_group_weight and max_group_weight allow no others.";
  return `All weights are 1 here, so this weighting changes nothing: ${kind === "balanced" ?
    `all groups by ${key} have equally many episodes.` :
    `it needs differences in the returns of earlier updates by ${key}, which a run keeps only if it trains with a ` +
    "weighting, and for its own kind of returns."}`;
}

// A choice that is the run's own value counts as none.
const unlessOwn = (value, own) => (value === own ? null : value);

const usesLaterTurns = (choice, trace, strategy) => strategy.id === "bins" &&
  numericFacts(trace).some(({ name, level }) => name === factFor(choice, trace) && level === "turn");

const knownOptions = (name) => KNOWN_VALUES[name].map((value) => ({ value, label: value }));

function finerControls({ choice, choose, trace }, inForce) {
  const kinds = [{ value: "episode", label: "episode" }, { value: "per_phase", label: "by turn" }];
  if (trace.turns.facts.segment) kinds.push({ value: "segment", label: "by segment" });
  return [
    radios("Returns", kinds, choice.returns ?? inForce.returns, (returns) =>
      choose({ returns: unlessOwn(returns, inForce.returns), group: null })),
    radios("Baseline", [{ value: "mean", label: "mean" }, { value: "leave_one_out", label: "leave one out" }],
      choice.baseline ?? inForce.baseline, (baseline) => choose({ baseline: unlessOwn(baseline, inForce.baseline) })),
    radios("Divide by the deviation of", knownOptions("scale"),
      choice.scale ?? inForce.scale_rewards, (scale) => choose({ scale: unlessOwn(scale, inForce.scale_rewards) })),
    toggle("Shrink small groups towards their parents", choice.shrinkage ?? inForce.shrinkage,
      (shrinkage) => choose({ shrinkage: unlessOwn(shrinkage, inForce.shrinkage) })),
  ];
}
