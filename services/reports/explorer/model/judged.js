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
    const batch = batchFor(id, choice, trace);
    const result = id === "none" ? computeUngrouped(batch, settings) : computeAdvantages(batch, settings);
    return completeJudgement(result, settings, batch, strategy);
  } catch (error) {
    return { problem: error.message };
  }
}

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
  };
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
  const dot = sumOf(pairs.map(([left, right]) => left * right));
  const norms = [0, 1].map((side) => Math.sqrt(sumOf(pairs.map((pair) => pair[side] ** 2))));
  const lost = pairs.filter(([left, right]) => left !== 0 && right === 0).length;
  const gained = pairs.filter(([left, right]) => left === 0 && right !== 0).length;
  return {
    changed, lost, gained, samples: pairs.length,
    cosine: norms[0] > 0 && norms[1] > 0 ? dot / (norms[0] * norms[1]) : null,
    magnitude: norms[0] > 0 ? norms[1] / norms[0] : null,
  };
}
