"use strict";
// The derivation of one advantage and one loss, step by step, with the numbers of what is selected.

function formulasView(context) {
  const { judged, choice } = context;
  const parts = [];
  if (judged.problem !== null) return [strategyControls(context)];
  if (choice.episode === null) {
    if (judged.advantages.every((value) => !(value < 0))) {
      parts.push(element("p", { class: "headline card padded", id: "verdict" }, "No sample of this update has a negative " +
        "advantage: none did worse than its group."));
    }
    parts.push(notice("Choose an episode, then a turn and a token, on the right; the steps fill with their numbers."),
      interestingTurns(context));
  } else {
    const turn = formulaTurn(context);
    const sample = judged.samplesAreTurns ? turn : choice.episode;
    parts.push(verdict(context, sample), ...advantageSteps(context, sample, turn), ...lossSteps(context, turn));
  }
  parts.push(lossControls(context), clippingFigure(context));
  return parts;
}

// The turn that formulas are about: the selected one or the episode's first.
const formulaTurn = ({ choice, trace }) => choice.turn ?? trace.firstTurn[choice.episode];

function interestingTurns(context) {
  const { judged, choose } = context;
  const order = [...judged.samples.keys()].filter((sample) => judged.advantages[sample] !== 0)
    .sort((left, right) => Math.abs(judged.advantages[right]) - Math.abs(judged.advantages[left])).slice(0, 12);
  const rows = order.map((sample) => ({
    cells: [sampleName(context, sample), judged.returns[sample], judged.baselineOfSample[sample], judged.advantages[sample]],
    onPress: () => choose({ episode: judged.samples[sample].episode, turn: judged.samples[sample].turn }),
  }));
  return element("div", { class: "card padded" }, element("h3", {}, "Largest advantages of this update"),
    dataTable([judged.samplesAreTurns ? "Turn" : "Episode", "Return", "Baseline", "Advantage"], rows, { caption:
      "Largest advantages" }));
}

// One sentence that says why the advantage is what it is.
function verdict(context, sample) {
  const { judged, run } = context;
  const value = judged.returns[sample];
  const baseline = judged.baselineOfSample[sample];
  const advantage = judged.advantages[sample];
  const role = roleOf(run, judged.samples[sample].role).label;
  const group = judged.names[judged.groupOfSample[sample]];
  const better = judged.returns.filter((each) => each < value).length / judged.returns.length;
  const rank = better === 0 ? "the lowest of this update" : `better than ${percent(better)} of this update's samples`;
  const standing = `${sampleName(context, sample)}: its return ${formatNumber(value)} is ${rank}`;
  let text;
  if (!Number.isFinite(baseline)) text = `${standing}, but nothing was known of ${role} yet, so its advantage is 0.`;
  else if (advantage === 0) text = `${standing}, and its group “${group}” has no other value: the advantage is 0.`;
  else {
    const side = advantage > 0 ? "above" : "below";
    const join = (better > 0.5) === (advantage > 0) ? "and" : "but";
    text = `${standing}, ${join} ${side} the mean ${formatNumber(baseline)} of its group “${group}”: its advantage is ${
      signed(advantage)}, so what it did is made ${advantage > 0 ? "more" : "less"} likely.${weightInWords(context, sample)}${
      restOfEpisode(context, sample)}`;
  }
  return element("p", { class: "headline card padded", id: "verdict" }, text);
}

// What a group weight made of the advantage; empty where there are none.
function weightInWords({ judged, run }, sample) {
  const weight = judged.weightOfSample[sample];
  if (judged.settings.grouping.group_weights === "none" || weight === 0) return "";
  return ` Before the weight ${formatNumber(weight)} of ${roleOf(run, judged.samples[sample].role).label} it was ${
    signed(judged.advantages[sample] / weight)}.`;
}

// How the episode's other turns did, where each turn is a sample.
function restOfEpisode({ judged, trace }, sample) {
  if (!judged.samplesAreTurns) return "";
  const turns = turnsOfEpisode(trace, judged.samples[sample].episode);
  const good = turns.filter((turn) => judged.advantages[judged.sample_of_turn[turn]] > 0).length;
  return ` This is about one turn: of its episode's ${counted(turns.length, "turn")}, ${formatNumber(good)} ${
    good === 1 ? "has" : "have"} an advantage above 0.`;
}

function step(title, formula, filled, note) {
  return element("section", { class: "card padded step" }, element("h3", {}, title),
    element("p", { class: "formula" }, formula), element("p", { class: "formula filled" }, filled),
    note ? element("p", { class: "soft" }, note) : null);
}

function advantageSteps(context, sample, turn) {
  const { judged, trace } = context;
  const steps = [returnStep(context, sample, turn), baselineStep(context, sample)];
  if (judged.settings.grouping.shrinkage) steps.push(shrinkageStep(context, sample));
  steps.push(advantageStep(context, sample));
  if (judged.settings.grouping.group_weights !== "none") steps.push(weightStep(context, sample));
  const recorded = trace.advantages[sample];
  if (context.choice.strategy === "trained" && Number.isFinite(recorded) &&
    trace.advantages.length === judged.advantages.length) {
    steps.push(notice(`The run recorded ${formatNumber(recorded)} for it.`));
  }
  return steps;
}

function returnStep({ judged, trace }, sample, turn) {
  const { returns, discount } = judged.settings.learner;
  const value = judged.returns[sample];
  const { episode } = judged.samples[sample];
  if (returns === "episode") {
    const parts = Object.entries(trace.episodes.parts).map(([name, values]) => `${name} ${formatNumber(values[episode])}`);
    return step("Return", "G = the episode's reward", `G = ${formatNumber(value)}`,
      parts.length > 0 ? `The parts it may be made of: ${parts.join(", ")}.` : null);
  }
  const own = turnsOfEpisode(trace, episode).filter((each) => each >= turn);
  const rewards = own.slice(0, 6).map((each) => formatNumber(trace.turns.reward[each]));
  const more = own.length > 6 ? ", …" : "";
  const next = own.length > 1 ? judged.returns[sample + 1] : 0;
  const elapsed = trace.turns.elapsed[turn];
  if (returns === "segment") {
    return step("Return", "G = sum of the rewards to the end of the segment", `G = ${formatNumber(value)}`,
      `Rewards from here on: ${rewards.join(", ")}${more}.`);
  }
  return step("Return", "G = r + discount ^ phases · G of the next decision",
    `G = ${formatNumber(trace.turns.reward[turn])} + ${formatNumber(discount)} ^ ${elapsed} · ${formatNumber(next)} = ${
      formatNumber(value)}`, `Rewards from here on: ${rewards.join(", ")}${more}.`);
}

function baselineStep({ judged }, sample) {
  const index = judged.groupOfSample[sample];
  const group = judged.groups[index];
  const { mean } = judged.statistics[index];
  const baseline = judged.baselineOfSample[sample];
  if (group.level === RUNNING_LEVEL) {
    return step("Baseline", "b = the role's running mean before this update", `b = ${formatNumber(baseline)}`,
      `No group of ${judged.settings.grouping.min_group_size} episodes was found along ${
        judged.settings.grouping.keys.join(" > ")}.`);
  }
  const left = judged.settings.grouping.baseline === "leave_one_out";
  const formula = left ? "b = mean of the group's samples of other episodes" : "b = mean of the group's samples";
  const others = left ? group.members.filter((member) => judged.samples[member].episode !==
    judged.samples[sample].episode) : group.members;
  return step("Baseline", formula, `b = mean of ${formatNumber(others.length)} returns = ${formatNumber(baseline)}`,
    `Group “${judged.names[index]}” of level ${group.level}: ${counted(group.members.length, "sample")} of ${
      counted(episodesOf(judged, group), "episode")}, mean ${formatNumber(mean)}.`);
}

function shrinkageStep({ judged }, sample) {
  const { share } = judged.statistics[judged.groupOfSample[sample]];
  return step("Shrinkage", "b = share · own mean + (1 − share) · the parent's, share = n / (n + σ²/τ²)",
    `share = ${formatNumber(share)}`, "The fewer episodes a group has, the more its mean leans on the coarser group's.");
}

function advantageStep({ judged }, sample) {
  const { scale_rewards: scale } = judged.settings.grouping;
  const gap = judged.returns[sample] - judged.baselineOfSample[sample];
  const value = judged.advantages[sample] / (judged.weightOfSample[sample] || 1);
  const divisor = value === 0 ? null : gap / value;
  const names = { group: "the group's deviation + 1e-4", batch: "root mean square of all G − b of the batch + 1e-4" };
  const formula = scale === "none" ? "A = G − b" : `A = (G − b) / (${names[scale]})`;
  const centred = `${formatNumber(judged.returns[sample])} − ${formatNumber(judged.baselineOfSample[sample])}`;
  const filled = scale === "none" || divisor === null ? `A = ${centred} = ${formatNumber(value)}`
    : `A = (${centred}) / ${formatNumber(divisor)} = ${formatNumber(value)}`;
  const plain = scale === "group" ? "Plain GRPO divides by the group's deviation, as here."
    : "Plain GRPO divides by the group's deviation, which makes nearly constant groups as loud as the others.";
  return step("Advantage", formula, filled, plain);
}

function weightStep({ judged }, sample) {
  const { group_weights: kind, weight_key: key } = judged.settings.grouping;
  const weight = judged.weightOfSample[sample];
  return step("Group weight", `A ← w · A, w by ${kind} weights of ${key}`,
    `w = ${formatNumber(weight)}, A = ${formatNumber(judged.advantages[sample])}`,
    "Weights come from earlier updates alone; their mean over this update's episodes is 1.");
}
