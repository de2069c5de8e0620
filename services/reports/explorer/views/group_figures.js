"use strict";
// What the groups of an update are made of: sizes, characteristics, and how well they predict returns.

function groupTable(context) {
  const { judged, choice, choose, run } = context;
  const role = shownRole(context);
  const { group_weights: weights } = judged.settings.grouping;
  const isShrunk = judged.statistics.some(({ share }) => share < 1);
  const isFlat = judged.statistics.some(({ zero_variance: zero }) => zero);
  const isDivided = dividingNumbers(context).length > 0;
  const rows = groupsOfRole(judged, role).map((index) => {
    const group = judged.groups[index];
    const { mean, std, share, zero_variance: zero } = judged.statistics[index];
    const episodes = episodesOf(judged, group);
    return {
      cells: [judged.names[index], ...(isDivided ? [numbersOfGroup(context, index)] : []), group.level,
        group.decided.length, group.members.length, episodes, mean, std,
        sizeVerdict(judged, index).replace(" ", "\u00a0"), ...(isShrunk ? [percent(share)] : []),
        ...(isFlat ? [zero ? "all 0" : ""] : []),
        ...(weights === "none" ? [] : [judged.weightOfSample[group.decided[0]]])],
      onPress: () => choose({ group: judged.names[index], episode: null }),
      selected: choice.group === judged.names[index],
    };
  });
  const head = ["Group", ...(isDivided ? ["Its numbers"] : []), "Level", "Judged", "Members", "Episodes",
    isShrunk ? "Mean, shrunk" : "Mean",
    "Deviation", "Size",
    ...(isShrunk ? ["Own part of the mean"] : []), ...(isFlat ? ["Advantages"] : []), ...(weights === "none" ? [] : ["Weight"])];
  const title = role === "all" ? "all roles" : roleOf(run, role).label;
  return element("details", { class: "card padded", open: choice.group !== null ? "" : null, "data-key": "group-table" },
    element("summary", {}, `Groups as a table (${rows.length}, ${title})`),
    dataTable(head, rows, { caption: "Groups, judged samples and their baselines" }));
}

// The numbers by which clusters and bins divide a role's episodes; none for other groups.
function dividingNumbers({ judged, choice, trace }) {
  if (judged.strategy.clusters) return trace.clusters.features;
  return judged.strategy.id === "bins" ? [factFor(choice, trace)] : [];
}

// From where to where a group's members have the numbers that divide, such as "start_year 1901 to 1903".
function numbersOfGroup(context, index) {
  return dividingNumbers(context).map((name) => `${name} ${rangeOfNumber(context, index, name)}`).join(", ");
}

function rangeOfNumber({ judged, trace }, index, name) {
  const extent = extentOf(judged.groups[index].members.map((sample) =>
    valueOfFact(trace, name, judged.samples[sample].episode, judged.samples[sample].turn)));
  if (extent === null) return "\u2013";
  const [low, high] = extent;
  return low === high ? axisNumber(low) : `${axisNumber(low)} to ${axisNumber(high)}`;
}

const ENOUGH_EPISODES = 12; // a standard error of 0.29 deviations

// Whether a group is large enough, by how uncertain its mean is, in deviations of one return.
function sizeVerdict(judged, index) {
  const group = judged.groups[index];
  if (group.level === RUNNING_LEVEL) return "fell back";
  const error = 1 / Math.sqrt(episodesOf(judged, group));
  if (error > 0.5) return "small";
  return episodesOf(judged, group) < ENOUGH_EPISODES ? "rather small" : "large enough";
}

function groupDetails(context) {
  const { judged, choice, choose, run, trace } = context;
  const index = judged.byName.get(choice.group);
  const group = judged.groups[index];
  const { mean, std, zero_variance: zero, share } = judged.statistics[index];
  const episodes = episodesOf(judged, group);
  const atLeast = judged.settings.grouping.min_group_size;
  const isRunning = group.level === RUNNING_LEVEL;
  const members = [...group.decided].sort((left, right) => judged.advantages[right] - judged.advantages[left]);
  const rows = members.map((sample) => ({
    cells: [sampleName({ judged, trace, run }, sample), judged.returns[sample], judged.advantages[sample]],
    onPress: () => choose({ episode: judged.samples[sample].episode, turn: judged.samples[sample].turn,
      group: choice.group }),
  }));
  return element("div", { class: "card padded group-details", id: "group-details" },
    element("h3", {}, `Is “${choice.group}” too small?`),
    element("p", {}, smallnessText(judged, index, episodes, atLeast)),
    figures([
      ...(dividingNumbers(context).length > 0 ? [["Its numbers", numbersOfGroup(context, index)]] : []),
      ["Samples of the group", group.members.length], ["Episodes they are from", episodes],
      ["Fewest episodes that a group may have", atLeast],
      [isRunning ? "Running mean of earlier updates" : share < 1 ? "Mean return, shrunk" : "Mean return", mean],
      [isRunning ? "Running deviation" : share < 1 ? "Deviation, shrunk" : "Deviation", std],
      ["Standard error of the mean", isRunning ? null : std / Math.sqrt(episodes)],
      ["The largest part that one episode has in its own baseline", isRunning ? null : percent(ownPart(judged, group, share))],
      ["The group's own part of the mean", share < 1 ? percent(share) : null],
      ["Zero variance", zero ? "yes: all advantages are 0" : "no"],
    ]),
    dataTable([judged.samplesAreTurns ? "Turn" : "Episode", "Return", "Advantage"], rows, { caption: "Members, best first",
      limit: 60 }));
}

// The largest part that one episode's samples have in the baseline that they are compared with.
function ownPart(judged, { members }, share) {
  if (judged.settings.grouping.baseline === "leave_one_out") return 0;
  const counts = countsByLabel(numbered(members.map((sample) => judged.samples[sample].episode)));
  return (share * highestOf(counts)) / members.length;
}

function smallnessText(judged, index, episodes, atLeast) {
  const { level } = judged.groups[index];
  if (level === RUNNING_LEVEL) {
    return `No group of at least ${atLeast} episodes was found, so these samples are compared with their role's running ` +
      "mean of earlier updates.";
  }
  const error = 1 / Math.sqrt(episodes);
  const verdict = sizeVerdict(judged, index);
  const answers = { small: "Yes, it is small", "rather small": "Yes, it is rather small", "large enough":
    "No, it is large enough" };
  const help = verdict === "large enough" ? "" : ` A group of ${ENOUGH_EPISODES} episodes or more counts as large enough here: ` +
    `then that error is at most ${percent(1 / Math.sqrt(ENOUGH_EPISODES))}. ` +
    "What helps: more episodes of a kind, a larger min_group_size, so that a coarser key judges them, or shrinkage.";
  const least = smallestGroup(judged) === index ? " It is one of the smallest groups of this update." : "";
  return `${answers[verdict]}: its mean comes from ${counted(episodes, "episode")}, so the mean's standard error is ${
    percent(error)} of one return's deviation.${least} That error is noise in every advantage of the group.${help}`;
}

function sampleName({ judged, trace, run }, sample) {
  const { episode, turn } = judged.samples[sample];
  return turn === null ? episodeName(run, trace, episode) : `${episodeName(run, trace, episode)}, ${turnName(trace, turn)}`;
}

function sizesFigure(context) {
  const { judged, choose, run } = context;
  const role = shownRole(context);
  const all = groupsOfRole(judged, role);
  const indices = all.slice(0, 40);
  const more = all.length > indices.length ? ` ${counted(all.length - indices.length, "more group")} would not fit.` : "";
  const items = indices.map((index) => ({
    group: judged.names[index], name: shortName(context, index, role), value: judged.groups[index].decided.length,
    color: roleOf(run, judged.samples[judged.groups[index].members[0]].role).color,
  }));
  return figureOf({
    title: "Group sizes", note: `Samples whose advantage each group decides.${more}`,
    chart: bars({ items, unit: "samples", onSelect: (place) => choose({ group: items[place].group, episode: null }) }),
    label: `Sizes of ${counted(items.length, "group")}, from ${formatNumber(lowestOf(items.map(({ value }) => value)))} to ${
      formatNumber(highestOf(items.map(({ value }) => value)))} samples.`,
    table: { head: ["Group", "Samples"], rows: items.map(({ name, value }) => [name, value]) },
  });
}

function characteristicsFigure(context) {
  const { judged, choice, trace } = context;
  const all = numericFacts(trace);
  const facts = all.slice(0, 8);
  const more = all.length > facts.length ? ` ${counted(all.length - facts.length, "more number")} would not fit.` : "";
  if (facts.length < 3) {
    return element("div", { class: "card padded" }, element("h3", {}, "Characteristics"),
      element("p", { class: "soft" }, "A radar needs three numbers that vary; this update has " +
        `${counted(facts.length, "such number")}.`));
  }
  const axes = facts.map(({ name, level }) => {
    const [low, high] = extentOf(valuesOfFact(trace, name)) ?? [0, 1];
    return { name: level === "outcome" ? `${name} (after)` : name, low, high };
  });
  const chosen = judged.byName.get(choice.group);
  const series = [{ name: "all samples", values: factMeans(context, facts, null), color: "var(--soft)" }];
  if (chosen !== undefined) {
    series.push({ name: choice.group, values: factMeans(context, facts, judged.groups[chosen].members), color:
      "var(--accent)" });
  }
  return figureOf({
    title: "Characteristics", note: chosen === undefined
      ? `Mean of each number over all samples; choose a group to compare it.${more}` :
      `The chosen group against all samples.${more}`,
    chart: radar({ axes, series }), label: `Means of ${facts.map(({ name }) => name).join(", ")}.`,
    table: { head: ["Number", ...series.map(({ name }) => name)],
      rows: facts.map(({ name }, place) => [name, ...series.map(({ values }) => values[place])]) },
  });
}

function factMeans({ judged, trace }, facts, members) {
  const samples = members ?? [...judged.samples.keys()];
  return facts.map(({ name }) => meanOf(samples.map((sample) => {
    const { episode, turn } = judged.samples[sample];
    return valueOfFact(trace, name, episode, turn);
  })));
}

// How much of the returns' variance within roles each strategy predicts out of sample, on this update. It is computed
// piece by piece after the page was drawn, so that the page answers meanwhile.
function explainedFigure(context) {
  const { choice, run, trace, judged, memory } = context;
  const about = JSON.stringify([run.index, trace.version, judged.settings.learner.returns, choice.number, choice.fact,
    choice.cuts]);
  const place = element("div", {});
  if (memory.explained?.about !== about) {
    memory.explained = { about, items: [], repeated: [], waiting: explainableStrategies(context) };
    setTimeout(() => explainNext(memory.explained, context));
  }
  memory.explained.place = place;
  showExplained(memory.explained, choice);
  return place;
}

const explainableStrategies = ({ choice, trace, judged }) => STRATEGIES.filter((strategy) => strategy.id !== "none" &&
  !strategy.warning && !usesOutcome(choice, trace, strategy) && strategyProblem(strategy, trace,
    judged.settings.learner) === null && !(["trained", "unphased"].includes(strategy.id) && trainedOnOutcomes(trace)));

// Whether a key of the run names what is known only afterwards.
const trainedOnOutcomes = ({ grouping, episodes }) => grouping.allow_outcome_keys && grouping.keys.some((key) =>
  ["return", ...Object.keys(episodes.outcome)].some((name) => key.split("+").some((part) => part.split(":")[0] === name)));

function explainNext(found, context) {
  const strategy = found.waiting.shift();
  if (strategy === undefined || context.memory.explained !== found) return;
  const judged = judgedBy(strategy.id, context.choice, context.run, context.trace);
  const isRepeated = !["role", "none", "trained"].includes(strategy.id) && judged.problem === null && !dividesARole(judged);
  if (judged.problem === null && !isRepeated) {
    const { table, returns } = samplesAndReturns(judged.batch, judged.settings);
    const value = shareExplainedByChain(table, returns, judged.settings.grouping);
    if (value !== null) found.items.push({ id: strategy.id, name: strategy.label, value });
  } else if (isRepeated) found.repeated.push(strategy.label);
  if (found.waiting.length === 0) showExplained(found, context.choice);
  setTimeout(() => explainNext(found, context));
}

function showExplained({ items, repeated, waiting, place }, choice) {
  if (waiting.length > 0) {
    place.replaceChildren(element("p", { class: "soft" }, "Comparing how well each grouping predicts returns …"));
    return;
  }
  if (items.length === 0) {
    place.replaceChildren(notice("The returns of this update do not differ within roles, so no grouping predicts them."));
    return;
  }
  const shown = items.map(({ id, name, value }) => ({ name, value, color: id === choice.strategy ? "var(--accent)" :
    "var(--soft)" }));
  const best = items.reduce((most, item) => (item.value > most.value ? item : most));
  const verdict = best.value > 0 ? `Here “${best.name}” predicts most.` :
    `Here no grouping predicts the returns of this one update; “${best.name}” comes nearest.`;
  const again = repeated.length === 0 ? "" : ` Left out, because they make the groups by role again: ${repeated.join(", ")}.`;
  place.replaceChildren(figureOf({
    title: "Which grouping predicts returns?",
    note: `${verdict} The bars are the share of the variance within roles that the mean of a group's other episodes ` +
      "predicts. At or below 0, the noise of such a mean is larger than what it says. Groups made from outcomes are " +
      `left out.${again}`,
    chart: bars({ items: shown, unit: "" }), label: items.map(({ name, value }) => `${name} ${percent(value)}`).join(", "),
    table: { head: ["Strategy", "Share"], rows: items.map(({ name, value }) => [name, value]) },
  }));
}
