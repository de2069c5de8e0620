"use strict";
// How groups form: dots that move into their groups, and what the groups are made of.
const MOST_DOTS = 2000;
const MOST_COLUMNS = 14; // groups that stand side by side

function groupsView(context) {
  const { judged, choice, trace } = context;
  const parts = [strategyControls(context)];
  if (judged.problem !== null) return parts;
  parts.push(formationFigure(context), groupTable(context));
  if (choice.group !== null && judged.byName.has(choice.group)) parts.push(groupDetails(context));
  parts.push(element("div", { class: "two" }, sizesFigure(context), characteristicsFigure(context)));
  parts.push(explainedFigure(context));
  const gap = choice.strategy === "trained" ? distanceToRecorded(judged, trace) : null;
  if (gap !== null) parts.push(notice(recomputedNote(gap)));
  return parts;
}

function recomputedNote(gap) {
  if (gap <= 1e-6) {
    return "This page computed the advantages again; they are those that the run recorded" +
      `${gap === 0 ? "." : `, to ${formatNumber(gap)}.`}`;
  }
  return `The advantages computed here differ from the recorded ones by up to ${formatNumber(gap)}: the page shows ` +
    "settings that the update did not have.";
}

// The role whose groups are drawn: "all", the chosen one, or that of the selected group or episode.
function shownRole({ choice, judged, trace, run }) {
  if (choice.role !== null) return choice.role;
  const group = judged.groups[judged.byName.get(choice.group)];
  if (group) return judged.samples[group.members[0]].role;
  if (choice.episode !== null) return trace.episodes.role[choice.episode];
  return judged.groups.length <= MOST_COLUMNS ? "all" : run.roles.find((role) =>
    trace.episodes.role.includes(role.name))?.name ?? "all";
}

// The groups that judge samples of a role, the roles one after the other, and numbered groups by their numbers.
function groupsOfRole(judged, role) {
  const roleOfGroup = (index) => judged.samples[judged.groups[index].decided[0]].role;
  const roles = [...new Set(judged.samples.map((sample) => sample.role))];
  const number = (index) => judged.groups[index].key.findLast(Number.isFinite) ?? 0;
  const found = [...judged.groups.keys()].filter((index) => role === "all" || roleOfGroup(index) === role ||
    judged.groups[index].level === BATCH_LEVEL);
  return found.sort((left, right) => roles.indexOf(roleOfGroup(left)) - roles.indexOf(roleOfGroup(right)) ||
    number(left) - number(right) || left - right);
}

function formationFigure(context) {
  const { choice, choose, judged, trace, run } = context;
  const role = shownRole(context);
  const fact = factFor(choice, trace);
  const columns = formationColumns(context, role);
  const all = formationPoints(context, role, columns);
  const points = choice.formed ? all.filter(({ group }) => group !== null) : all; // those of the groups that stand here
  const isHand = choice.strategy === "hand";
  const options = {
    points, layout: choice.formed ? "groups" : "scatter",
    xTitle: fact ?? "order in the batch", yTitle: judged.samplesAreTurns ? "return of the turn" : "return of the episode",
    groups: columns.map(({ index, name }) => groupColumn(judged, index, name)),
    boundaries: isHand && !choice.formed ? cutsFor(choice, trace) : [],
    onBoundary: (place, value, finished) => {
      if (finished) choose({ cuts: cutsFor(choice, trace).with(place, Number(value.toPrecision(6))).join("_") });
    },
    selected: selectedSample(context),
    onSelect: (sample) => choose({
      episode: judged.samples[sample].episode, turn: judged.samples[sample].turn,
      group: judged.names[judged.groupOfSample[sample]],
    }),
  };
  const field = keptDotField(context, options);
  const head = element("div", { class: "figure-head" },
    element("div", {}, element("h3", {}, "Group formation"), element("p", { class: "soft" }, formationNote(context)),
      formationNumbersNote(context)),
    button(choice.formed ? "Scatter the dots" : "Form the groups", () => choose({ formed: !choice.formed }),
      { class: "primary", "data-key": "form" }));
  const roles = [{ value: "all", label: "all roles" }, ...run.roles.filter(({ name }) =>
    trace.episodes.role.includes(name)).map(({ name, label }) => ({ value: name, label }))];
  const controls = element("div", { class: "controls" },
    dropdown("Dots of", roles, role, (next) => choose({ role: next, group: null })),
    dropdown("Colour by", colorOptions(trace), choice.color, (color) => choose({ color })),
    isHand ? button("Even boundaries", () => choose({ cuts: null })) : null);
  return element("figure", { class: "card formation" }, head, controls, colorLegend(context), field.node,
    ...hiddenNotes(context, role));
}

function formationNote({ judged, choice }) {
  const what = judged.samplesAreTurns ? "turn" : "episode";
  const where = choice.formed ? "Each column is a group; the line is the mean of all its members, from which " +
    "advantages are counted. A member that a finer group judges stands in that group's column, so a column may have fewer " +
    "dots than its group has members."
    : "Press the button and the dots go to their groups. Dots with the same whole number are spread sideways.";
  return `Each dot is one ${what} of this update. ${where}`;
}

// Where to see what divides clusters and bins; null for other groups and where no group stands yet.
function formationNumbersNote(context) {
  const names = dividingNumbers(context);
  if (names.length === 0 || !context.choice.formed) return null;
  return element("p", { class: "soft" }, names.length === 1 ? `In brackets: ${names[0]} of the group's members.`
    : `The table below says which numbers a group's members have (${names.join(", ")}).`);
}

// Why there are fewer clusters or bins of a role than were asked for; null where there are as many.
function fewerThanAsked(judged, choice) {
  const { strategy } = judged;
  const isCounted = strategy.id === "bins" || (strategy.clusters && strategy.id !== "dirichlet"); // that one finds its own
  if (!isCounted) return null;
  const counts = new Map();
  for (const group of judged.groups.filter(({ key }) => key.length > 1)) {
    counts.set(group.key[0], (counts.get(group.key[0]) ?? 0) + 1);
  }
  const most = counts.size > 0 ? highestOf([...counts.values()]) : 0;
  if (most >= choice.number) return null;
  return `${choice.number} groups of a role were asked for, and no role has more than ${most}: the numbers that divide ` +
    "them have too few values, or the others are too small and fell back.";
}

function hiddenNotes({ judged, choice }, role) {
  const groups = groupsOfRole(judged, role);
  const notes = [];
  if (choice.formed && groups.length > MOST_COLUMNS) {
    notes.push(notice(`The ${MOST_COLUMNS} largest of ${groups.length} groups stand here; the table below has all.`));
  }
  const fewer = fewerThanAsked(judged, choice);
  if (fewer !== null) notes.push(notice(fewer));
  const samples = judged.samples.filter((sample) => role === "all" || sample.role === role).length;
  if (samples > MOST_DOTS) {
    notes.push(notice(`${formatNumber(MOST_DOTS)} of ${formatNumber(samples)} dots are drawn, evenly chosen.`));
  }
  return notes;
}

// The groups that stand as columns: the largest of the role, in their order.
function formationColumns(context, role) {
  const { judged, choice } = context;
  const found = groupsOfRole(judged, role);
  const bySize = [...found].sort((left, right) => judged.groups[right].decided.length - judged.groups[left].decided.length);
  const kept = new Set(bySize.slice(0, MOST_COLUMNS));
  const selected = judged.byName.get(choice.group);
  if (selected !== undefined && found.includes(selected)) kept.add(selected);
  return found.filter((index) => kept.has(index)).map((index) => ({ index, name: shortName(context, index, role) }));
}

// Whose groups are shown, as a title.
const roleTitle = (context) => (shownRole(context) === "all" ? "all roles" : roleOf(context.run, shownRole(context)).label);

// A group's name without its role where only one role is shown, and with its range where one number divides.
function shortName(context, index, role) {
  const { judged, choice, trace } = context;
  const { key, level } = judged.groups[index];
  if (judged.strategy.id === "hand" && key.length === 2) {
    const range = rangeOfPart(cutsFor(choice, trace), key[1]);
    return role === "all" ? `${key[0]}, ${range}` : range;
  }
  if (level === RUNNING_LEVEL || key.length < 2) return judged.names[index];
  const dividing = dividingNumbers(context);
  const range = dividing.length === 1 ? ` (${rangeOfNumber(context, index, dividing[0])})` : "";
  if (role === "all") return judged.names[index] + range;
  const parts = key.filter((part) => part !== role).map(keyText);
  const telling = parts.filter((part) => part !== "none"); // such as no scenario
  return (telling.length > 0 ? telling : parts).join(", ") + range;
}

function rangeOfPart(cuts, part) {
  if (part === 0) return `below ${axisNumber(cuts[0])}`;
  return part === cuts.length ? `from ${axisNumber(cuts[part - 1])}` : `${axisNumber(cuts[part - 1])} to ${
    axisNumber(cuts[part])}`;
}

function groupColumn(judged, index, name) {
  const { mean, zero_variance: zero } = judged.statistics[index];
  const { decided, members } = judged.groups[index];
  const size = decided.length < members.length ? `${decided.length} of ${members.length}` : String(decided.length);
  return { name, mean: Number.isFinite(mean) ? mean : null, note: zero ? `${size}, all 0` : size };
}

function formationPoints({ judged, choice, trace, run }, role, columns) {
  const own = [...judged.samples.keys()].filter((sample) => role === "all" || judged.samples[sample].role === role);
  const step = Math.max(1, own.length / MOST_DOTS);
  const chosen = Array.from({ length: Math.min(own.length, MOST_DOTS) }, (_, place) => own[Math.floor(place * step)]);
  const shown = new Map(columns.map(({ index, name }) => [index, name]));
  const fact = factFor(choice, trace);
  const paint = dotPaint({ judged, choice, trace, run });
  const isWhole = fact !== null && valuesOfFact(trace, fact).every((value) => Number.isInteger(value));
  return chosen.map((sample) => {
    const { episode, turn, role: played } = judged.samples[sample];
    const group = judged.groupOfSample[sample];
    const value = fact === null ? sample : valueOfFact(trace, fact, episode, turn);
    return {
      id: sample, x: isWhole && value !== null ? value + besideItsValue(sample) : value, y: judged.returns[sample],
      group: shown.get(group) ?? null, size: chosen.length > 600 ? 6 : 9,
      shape: shapeOfRole(run, played), ...paint(sample), label: sampleLabel({ judged, trace, run }, sample),
    };
  });
}

// A small step to the side, so that dots of the same whole number do not cover one another.
const besideItsValue = (sample) => 0.4 * (((sample * 0.6180339887) % 1) - 0.5);

const valueOfFact = (trace, name, episode, turn) => recordedFact(trace, name, episode, turn ??
  trace.firstTurn[episode]) ?? trace.batch.episodes.outcome[name]?.[episode] ?? null;

function sampleLabel({ judged, trace, run }, sample) {
  const { episode, turn } = judged.samples[sample];
  const where = turn === null ? episodeName(run, trace, episode) : `${episodeName(run, trace, episode)}, ${
    turnName(trace, turn)}`;
  return `${where}: return ${formatNumber(judged.returns[sample])}, advantage ${signed(judged.advantages[sample])}`;
}

function selectedSample({ judged, choice, trace }) {
  if (choice.episode === null) return null;
  return sampleFor(judged, trace, choice.episode, choice.turn);
}

// The field of dots lives on while the page is drawn again, so that its dots can move.
function keptDotField(context, options) {
  const about = `${context.run.index}/${context.trace.version}/${context.judged.samplesAreTurns}`;
  return keptField(context, "dots", about, options);
}

function keptField({ memory, afterwards }, name, about, options) {
  const kept = memory[name];
  if (kept?.about !== about) {
    memory[name] = { about, field: dotField(options) };
    return memory[name].field;
  }
  afterwards.push(() => {
    kept.field.node.getBoundingClientRect(); // the dots are where they were, so that they move from there
    kept.field.update(options);
  });
  return kept.field;
}
