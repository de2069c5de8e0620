"use strict";
// How much of a batch's returns keys explain.

// The share of the variance within roles that a chain of keys predicts out of sample: 1 less the squared distances from
// the left-out baselines over those from the roles' means. It is at most 1, and null if nothing varies within roles.
function shareExplainedByChain(table, returns, grouping) {
  const groups = groupsOf(table, levelsOf(table, grouping), grouping.min_group_size);
  const { running } = table.batch;
  const options = { scale: "none", leaveOneOut: true, owners: table.owners, shrunk: null };
  const residuals = groupAdvantages(returns, groups, running, options).advantages;
  const fromMeans = gapsToRoleMeans(table, returns);
  for (const { level, key, decided } of groups) {
    if (level !== RUNNING_LEVEL || ownValue(running, key[0]) !== undefined) continue;
    for (const sample of decided) residuals[sample] = Math.fround(fromMeans[sample]); // nothing is predicted of it
  }
  const total = sumOfSquares(fromMeans);
  return total > 0 ? 1 - sumOfSquares(residuals) / total : null;
}

function gapsToRoleMeans({ samples }, returns) {
  const gaps = new Array(returns.length);
  for (const own of placesByValue(samples.map((sample) => sample.role)).values()) {
    const mean = meanOf(pick(returns, own));
    for (const sample of own) gaps[sample] = returns[sample] - mean;
  }
  return gaps;
}
