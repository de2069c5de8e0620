"use strict";
// Advantages of a batch: samples, returns, groups, advantages, group weights.
const BATCH_LEVEL = "batch"; // of the one group that holds everything

// Everything from a batch and its ``settings`` of learner and grouping to the samples' advantages, rounded to float32.
// ``weights`` are by group of ``weight_key`` and empty without weights; ``sample_of_turn`` names each turn's sample.
function computeAdvantages(batch, settings) {
  const { learner, grouping } = settings;
  const { table, returns } = samplesAndReturns(batch, settings);
  const { samples, owners } = table;
  const levels = levelsOf(table, grouping);
  const groups = groupsOf(table, levels, grouping.min_group_size);
  const roles = samples.map((sample) => sample.role);
  const { advantages, statistics } = groupAdvantages(returns, groups, batch.running, {
    scale: grouping.scale_rewards,
    leaveOneOut: grouping.baseline === "leave_one_out",
    owners,
    shrunk: grouping.shrinkage ? shrunkLevels(returns, levels, roles, owners) : null,
  });
  const { weighted, weights } = withGroupWeights(advantages, table, grouping);
  return {
    samples,
    returns,
    groups,
    statistics,
    advantages: weighted,
    weights: Object.fromEntries(weights),
    sample_of_turn: sampleOfTurn(batch, learner.returns),
  };
}

// The samples with the facts that key expressions may name, and their returns.
function samplesAndReturns(batch, { learner, grouping }) {
  const plain = sampleTable(batch, learner.returns);
  const returns = sampleReturns(batch, learner);
  const table = grouping.allow_outcome_keys ? { ...plain, outcomeReturns: returns } : plain;
  return { table, returns: grouping.opponent_adjusted ? opponentAdjusted(returns, table) : returns };
}

function withGroupWeights(advantages, table, grouping) {
  if (grouping.group_weights === "none") return { weighted: advantages, weights: new Map() };
  const names = groupNames(table, grouping.weight_key, grouping);
  const { group_weights: kind, min_group_weight: lowest, max_group_weight: highest } = grouping;
  const weights = groupWeights(kind, episodesByName(names, table.owners), table.batch.progress, lowest, highest);
  const weighted = advantages.map((value, sample) => Math.fround(value * Math.fround(weights.get(names[sample]))));
  return { weighted, weights };
}

// A turn's sample is its episode, or itself.
function sampleOfTurn(batch, returnsKind) {
  const owners = batch.episodes.turns.flatMap((turns, episode) => new Array(turns).fill(episode));
  return returnsKind === "episode" ? owners : owners.map((_, turn) => turn);
}

// The same with all samples in one group, roles mixed, as plain GRPO would have it. It has no group weights.
function computeUngrouped(batch, settings) {
  const { table, returns } = samplesAndReturns(batch, settings);
  const all = [...returns.keys()];
  const groups = all.length === 0 ? [] : [{ key: ["all"], level: BATCH_LEVEL, members: all, decided: all }];
  const { advantages, statistics } = groupAdvantages(returns, groups, {}, {
    scale: settings.grouping.scale_rewards,
    leaveOneOut: settings.grouping.baseline === "leave_one_out",
    owners: table.owners,
    shrunk: null,
  });
  const sample_of_turn = sampleOfTurn(batch, settings.learner.returns);
  return { samples: table.samples, returns, groups, statistics, advantages, weights: {}, sample_of_turn };
}

// The advantages with all but the largest set to 0: a ``share`` of them stays, rounded up. Size counts either way, and
// of equal ones the first stay.
function largestShare(advantages, share) {
  const order = [...advantages.keys()].sort((left, right) => Math.abs(advantages[right]) - Math.abs(advantages[left]));
  const kept = new Set(order.slice(0, Math.ceil(share * advantages.length)));
  return advantages.map((value, turn) => (kept.has(turn) ? value : 0));
}
