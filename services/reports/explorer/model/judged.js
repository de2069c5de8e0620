"use strict";
// One update as a strategy judges it: samples, groups, advantages, and what the page asks about them.
const judgedUpdates = new Map(); // the last ones, by what they depend on

// The judgement of an update; { problem } where the strategy cannot be applied. The same choice gives the same object.
function judgedBy(id, choice, run, trace) {
  const depends = ["number", "fact", "cuts", "returns", "baseline", "scale", "shrinkage", "weights"];
  const name = JSON.stringify([run.index, trace.version, id, ...depends.map((each) => choice[each])]);
  if (!judgedUpdates.has(name)) {
    if (judgedUpdates.size > 24) judgedUpdates.clear();
    judgedUpdates.set(name, judgedNow(id, choice, run, trace));
  }
  return judgedUpdates.get(name);
}

function judgedNow(id, choice, run, trace) {
  const settings = settingsFor(id, choice, run, trace);
  const strategy = strategyOf(id);
  const problem = strategyProblem(strategy, trace, settings.learner);
  if (problem !== null) return { problem: `${strategy.label}: ${problem}.` };
  try {
    const batch = pastFor(settings, batchFor(id, choice, trace), trace);
    const result = id === "none" ? computeUngrouped(batch, settings) : computeAdvantages(batch, settings);
    return completeJudgement(result, settings, batch, strategy);
  } catch (error) {
    return { problem: error.message };
  }
}

// The batch without what was learned from earlier returns if these are of another kind: it is in other units.
const pastFor = (settings, batch, trace) => (settings.learner.returns === trace.learner.returns ? batch :
  { ...batch, running: {}, progress: {} });

function completeJudgement(result, settings, batch, strategy) {
  const groupOfSample = new Array(result.samples.length).fill(null);
  const baselineOfSample = new Array(result.samples.length).fill(null);
  const names = result.groups.map(groupName);
  result.groups.forEach((group, index) => {
    group.decided.forEach((sample, place) => {
      groupOfSample[sample] = index;
      baselineOfSample[sample] = result.statistics[index].baselines[place];
    });
  });
  const { table } = samplesAndReturns(batch, settings);
  const weightOfSample = weightsOfSamples(result, table, settings.grouping);
  return {
    problem: null, ...result, settings, batch, strategy, table, names, groupOfSample, baselineOfSample, weightOfSample,
    byName: new Map(names.map((name, index) => [name, index])),
    samplesAreTurns: settings.learner.returns !== "episode",
    plainReturns: settings.grouping.opponent_adjusted ? sampleReturns(batch, settings.learner) : result.returns,
  };
}

// The returns that a sample's baseline is the mean of: those of its group, or of the group's other episodes.
function returnsOfBaseline({ judged, sample }) {
  const { members } = judged.groups[judged.groupOfSample[sample]];
  const isOther = (member) => judged.samples[member].episode !== judged.samples[sample].episode;
  const left = judged.settings.grouping.baseline === "leave_one_out" ? members.filter(isOther) : members;
  return pick(judged.returns, left);
}

// What a sample's baseline is shrunk from and to: the group's ``own`` mean, that of the coarser group (``parent``, of
// level ``key``) and the ``share`` of the former; null at the coarsest level, whose mean is its own.
function shrinkageOf(judged, sample) {
  const { grouping } = judged.settings;
  const place = grouping.keys.indexOf(judged.groups[judged.groupOfSample[sample]].level);
  if (!grouping.shrinkage || place < 0 || place + 1 === grouping.keys.length) return null;
  const { table, samples, returns } = judged;
  const shrunk = shrunkLevels(returns, levelsOf(table, grouping), samples.map(({ role }) => role), table.owners);
  const key = grouping.keys[place + 1];
  const { mean, restMean } = shrunk.get(key);
  const parent = (grouping.baseline === "leave_one_out" ? restMean : mean)[sample];
  const values = returnsOfBaseline({ judged, sample });
  if (values.length === 0) return { own: null, parent, key, share: 0 };
  const own = meanOf(values);
  return { own, parent, key, share: own === parent ? 1 : (judged.baselineOfSample[sample] - parent) / (own - parent) };
}

function weightsOfSamples(result, table, grouping) {
  if (Object.keys(result.weights).length === 0) return result.samples.map(() => 1);
  return groupNames(table, grouping.weight_key, grouping).map((name) => result.weights[name]);
}

// A group's name in the address and on the page: "FRANCE, S1901M" at a level; the running level says so.
const groupName = ({ key, level }) => `${key.map(keyText).join(", ")}${level === RUNNING_LEVEL ? " (running)" : ""}`;

// The sample of an episode or, where samples are turns, of one of its turns.
function sampleFor(judged, trace, episode, turn) {
  if (!judged.samplesAreTurns) return episode;
  return turn ?? trace.firstTurn[episode];
}

// How many episodes have a sample in a group.
function episodesOf(judged, group) {
  return new Set(group.members.map((sample) => judged.samples[sample].episode)).size;
}

// Whether the page's numbers are those that the run recorded: the largest distance of advantages; null if not asked.
function distanceToRecorded(judged, trace) {
  const recorded = trace.advantages;
  if (judged.problem !== null || judged.advantages.length !== recorded.length) return null;
  return highestOf(recorded.map((value, sample) => Math.abs((value ?? NaN) - judged.advantages[sample])));
}

// The mean of a role's advantages in size, summed: by how much each role moved the policy.
function pullByRole(judged) {
  const sums = new Map();
  judged.samples.forEach(({ role }, sample) => {
    sums.set(role, (sums.get(role) ?? 0) + Math.abs(judged.advantages[sample]));
  });
  return sums;
}

// Two judgements of the same samples: who changes sign, and how alike the pulls are. Null where the samples differ.
function agreementOf(one, other) {
  if (one.problem !== null || other.problem !== null || one.samples.length !== other.samples.length) return null;
  const pairs = one.advantages.map((value, sample) => [value, other.advantages[sample]]);
  const changed = pairs.flatMap(([left, right], sample) => (left * right < 0 ? [sample] : []));
  const lost = pairs.filter(([left, right]) => left !== 0 && right === 0).length;
  const gained = pairs.filter(([left, right]) => left === 0 && right !== 0).length;
  const same = pairs.filter(([left, right]) => left * right > 0).length;
  return {
    changed, lost, gained, same, zero: pairs.length - changed.length - lost - gained - same, samples: pairs.length,
    ...alikeness(one.advantages, other.advantages, pairs.map(() => 1)),
  };
}

// How alike two judgements' gradients are by the log-probabilities of all trained tokens, in the first pass and at a
// ratio of 1: each token of a turn has the slope -weight * advantage. Null where one of them has a problem.
function gradientAgreement(one, other, trace) {
  if (one.problem !== null || other.problem !== null) return null;
  const [left, right] = [one, other].map((judged) => {
    const weights = weightsOfTurns(trace, judged.settings.learner, 0);
    return lossAdvantages(trace, judged).map((advantage, turn) => -weights[turn] * advantage);
  });
  return alikeness(left, right, trace.turns.trained);
}

// The cosine of two lists and the second's length over the first's; each place counts ``times``.
function alikeness(left, right, times) {
  const product = (one, other) => sumOf(one.map((value, place) => times[place] * value * other[place]));
  const norms = [Math.sqrt(product(left, left)), Math.sqrt(product(right, right))];
  return {
    cosine: norms[0] > 0 && norms[1] > 0 ? product(left, right) / (norms[0] * norms[1]) : null,
    magnitude: norms[0] > 0 ? norms[1] / norms[0] : null,
  };
}
