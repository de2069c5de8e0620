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
    parts.push(notice("Choose an episode, then a turn and a token, in the selection beside this; the steps fill with their numbers."),
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
    cells: [sampleName(context, sample), judged.returns[sample], judged.baselineOfSample[sample], judged.advantages[sample],
      turnWithPass(context, sample) === undefined ? null : "recorded"],
    onPress: () => choose({ episode: judged.samples[sample].episode, turn: turnWithPass(context, sample) ??
      judged.samples[sample].turn }),
  }));
  return element("div", { class: "card padded" }, element("h3", {}, "Largest advantages of this update"),
    dataTable([judged.samplesAreTurns ? "Turn" : "Episode", "Return", "Baseline", "Advantage", "Tokens"], rows, { caption:
      "Where tokens were recorded, the steps go on to the loss" }));
}

// A turn of a sample whose tokens were recorded with a pass; undefined without any.
function turnWithPass({ judged, trace }, sample) {
  const { episode, turn } = judged.samples[sample];
  const turns = turn === null ? turnsOfEpisode(trace, episode) : [turn];
  return turns.find((each) => trace.recorded.get(each)?.passes.length > 0);
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
  const rank = rankInWords(judged.returns, value, better);
  const standing = `${sampleName(context, sample)}: its return ${formatNumber(value)} is ${rank}`;
  let text;
  if (!Number.isFinite(baseline)) text = `${standing}, but nothing was known of ${role} yet, so its advantage is 0.`;
  else if (advantage === 0) text = `${standing}, ${zeroReason(context, sample, group)}: the advantage is 0.`;
  else {
    const side = advantage > 0 ? "above" : "below";
    const isHigh = better > 0.5 || value === highestOf(judged.returns);
    const join = isHigh === (advantage > 0) ? "and" : "but";
    text = `${standing}, ${join} ${side} the mean ${formatNumber(baseline)} of its group “${group}”: its advantage is ${
      signed(advantage)}, ${isKept(context, sample) ? `so what it did is made ${advantage > 0 ? "more" : "less"} likely.` :
        "but the run keeps the largest advantages alone, and this one is not among them."}${weightInWords(context, sample)}${
      restOfEpisode(context, sample)}`;
  }
  return element("p", { class: "headline card padded", id: "verdict" }, text);
}

function rankInWords(returns, value, better) {
  const highest = highestOf(returns);
  const alike = returns.filter((each) => each === value).length;
  if (alike === returns.length) return "that of all samples of this update";
  if (better === 0) return "the lowest of this update";
  if (value === highest) return alike === 1 ? "the best of this update" : `the best of this update, as ${
    alike === 2 ? "is one other" : `are ${formatNumber(alike - 1)} others`}`;
  return `better than ${better > 0.99 ? "99 %" : percent(better)} of this update's samples`;
}

// Why an advantage is 0.
function zeroReason({ judged }, sample, group) {
  const index = judged.groupOfSample[sample];
  if (!judged.statistics[index].zero_variance) return `and that is exactly what its group “${group}” is compared with`;
  const { level, members } = judged.groups[index];
  if (level === RUNNING_LEVEL) return "and that is exactly its role's running mean";
  if (areAllEqual(pick(judged.returns, members))) return `and its group “${group}” has no other value`;
  return `but its group “${group}” has no other episode to compare it with`;
}

// Whether a sample's advantage reaches the loss, at least at one of its turns.
const isKept = ({ judged, trace }, sample) => lossAdvantages(trace, judged).some((value, turn) =>
  value !== 0 && judged.sample_of_turn[turn] === sample);

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
  const steps = [returnStep(context, sample, turn)];
  if (judged.settings.grouping.opponent_adjusted) steps.push(adjustmentStep(context, sample));
  steps.push(baselineStep(context, sample));
  const shrunk = shrinkageOf(judged, sample);
  if (shrunk !== null) steps.push(shrinkageStep(context, sample, shrunk));
  steps.push(advantageStep(context, sample));
  if (Object.keys(judged.weights).length > 0) steps.push(weightStep(context, sample));
  if (trace.learner.top_advantage_quantile < 1) steps.push(largestStep(context, turn));
  const recorded = trace.advantages[sample];
  if (context.choice.strategy === "trained" && Number.isFinite(recorded) &&
    trace.advantages.length === judged.advantages.length) {
    steps.push(notice(`The run recorded ${formatNumber(recorded)} for it.`));
  }
  return steps;
}

function returnStep({ judged, trace }, sample, turn) {
  const { returns, discount } = judged.settings.learner;
  const value = judged.plainReturns[sample];
  const { episode } = judged.samples[sample];
  if (returns === "episode") {
    const parts = Object.entries(trace.episodes.parts).map(([name, values]) => `${name} ${formatNumber(values[episode])}`);
    return step("Return", "G = the episode's reward", `G = ${formatNumber(value)}`,
      parts.length > 0 ? `The parts it may be made of: ${parts.join(", ")}.` : null);
  }
  const following = turnsOfEpisode(trace, episode).filter((each) => each >= turn);
  const segments = trace.turns.facts.segment;
  const end = returns === "segment" ? following.findIndex((each) => segments[each] !== segments[turn]) : -1;
  const own = end < 0 ? following : following.slice(0, end);
  const rewards = own.slice(0, 6).map((each) => formatNumber(trace.turns.reward[each]));
  const more = own.length > 6 ? ", …" : ".";
  const next = own.length > 1 ? judged.plainReturns[sample + 1] : 0;
  const elapsed = trace.turns.elapsed[turn];
  if (returns === "segment") {
    return step("Return", "G = sum of the rewards to the end of the segment", `G = ${formatNumber(value)}`,
      `Rewards from here on: ${rewards.join(", ")}${more}`);
  }
  return step("Return", "G = r + discount ^ phases · G of the next decision",
    `G = ${formatNumber(trace.turns.reward[turn])} + ${formatNumber(discount)} ^ ${elapsed} · ${formatNumber(next)} = ${
      formatNumber(value)}`, `Rewards from here on: ${rewards.join(", ")}${more}`);
}

function adjustmentStep({ judged, trace }, sample) {
  const { episode, turn } = judged.samples[sample];
  const expected = recordedFact(trace, "expected_return", episode, turn);
  return step("Against these opponents", "G ← G − expected return", `G = ${formatNumber(judged.plainReturns[sample])} − ${
    formatNumber(expected)} = ${formatNumber(judged.returns[sample])}`,
    "What the ratings of the line-up predicted before the game is taken out.");
}

function baselineStep({ judged }, sample) {
  const index = judged.groupOfSample[sample];
  const group = judged.groups[index];
  const baseline = judged.baselineOfSample[sample];
  if (group.level === RUNNING_LEVEL) {
    return step("Baseline", "b = the role's running mean before this update", `b = ${formatNumber(baseline)}`,
      `No group of ${judged.settings.grouping.min_group_size} episodes was found along ${
        judged.settings.grouping.keys.join(" > ")}.`);
  }
  const left = judged.settings.grouping.baseline === "leave_one_out";
  const formula = left ? "b = mean of the group's samples of other episodes" : "b = mean of the group's samples";
  const values = returnsOfBaseline({ judged, sample });
  const filled = values.length === 0 ? "b = none: no other episode is in the group" :
    `b = mean of ${counted(values.length, "return")} = ${formatNumber(meanOf(values))}`;
  return step("Baseline", formula, filled, `Group “${judged.names[index]}” of level ${group.level}: ${counted(
    group.members.length, "sample")} of ${counted(episodesOf(judged, group), "episode")}, their mean ${formatNumber(
    meanOf(pick(judged.returns, group.members)))}.`);
}

function shrinkageStep({ judged }, sample, { own, parent, key, share }) {
  return step("Shrinkage", "b ← share · b + (1 − share) · the parent's, share = n / (n + σ²/τ²)",
    `b = ${formatNumber(share)} · ${formatNumber(own ?? parent)} + ${formatNumber(1 - share)} · ${formatNumber(parent)} = ${
      formatNumber(judged.baselineOfSample[sample])}`,
    `The parent is the group of level ${key}. The fewer episodes a group has, the more its mean leans on the parent's.`);
}

function advantageStep({ judged }, sample) {
  const { scale_rewards: scale } = judged.settings.grouping;
  const index = judged.groupOfSample[sample];
  const gap = judged.returns[sample] - judged.baselineOfSample[sample];
  if (judged.statistics[index].zero_variance) {
    return step("Advantage", "A = 0", "A = 0", judged.groups[index].level === RUNNING_LEVEL && !Number.isFinite(
      judged.baselineOfSample[sample]) ? "No earlier update is known to compare with, so nothing is learned from it." :
      "The group has no other value or no other episode, so there is nothing to compare with.");
  }
  const value = judged.advantages[sample] / (judged.weightOfSample[sample] || 1);
  const divisor = value === 0 ? null : gap / value;
  const names = { group: judged.groups[index].level === RUNNING_LEVEL ?
    `max(running deviation, |G − b| / ${RUNNING_LIMIT}) + 1e-4` : "the group's deviation + 1e-4", batch: "root mean square of all G − b of the batch + 1e-4" };
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

function largestStep(context, turn) {
  const share = percent(context.trace.learner.top_advantage_quantile);
  const value = lossAdvantages(context.trace, context.judged)[turn];
  return step("Largest advantages", `A ← A if it is among the largest ${share} of the update's turns, else 0`,
    `A = ${formatNumber(value)}`, value === 0 ? "The turn gives no gradient." : "The turn stays in the loss.");
}
