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

// What each key expression alone explains, by expression. ``between`` and ``within`` split the squared distances from
// the batch's mean by the groups, and ``left_out`` are those from the mean of the group's other episodes. So Fisher's
// correlation ratio is between / (between + within), and the share explained out of sample is 1 - left_out / (between +
// within). ``by_country`` counts the samples whose left-out mean is their role's. Roles of one episode are left out.
function explainedSums(table, returns, expressions, grouping) {
  const allRoles = numbered(table.samples.map((sample) => sample.role));
  const { counts } = meansOfOtherEpisodes(returns, allRoles, table.owners);
  const compared = [...counts.keys()].filter((sample) => counts[sample] > 0);
  const [roles, owners, values] = [allRoles, table.owners, returns].map((each) => pick(each, compared));
  const mean = values.length > 0 ? meanOf(values) : 0;
  const centred = values.map((value) => value - mean);
  const byRole = meansOfOtherEpisodes(centred, roles, owners).means;
  const found = expressions.map((expression) => {
    const { keys, labels } = levelOf(table, expression, grouping);
    const placed = compared.map((sample) => labels[sample] !== UNPLACED);
    // A sample that the key does not place stays with its role.
    const whole = numbered(compared.map((sample, at) => (placed[at] ? labels[sample] : keys.length + roles[at])));
    return [expression, keySums(centred, whole, placed, owners, byRole, grouping.min_group_size)];
  });
  return Object.fromEntries(found);
}

function keySums(values, labels, placed, owners, byRole, minGroupSize) {
  const sizes = countsByLabel(labels);
  const between = sumOf(sumsByLabel(labels, values).map((sum, group) => (sum * sum) / sizes[group]));
  const { means, counts } = meansOfOtherEpisodes(values, labels, owners);
  const episodes = episodesInGroup(labels, owners);
  const own = placed.map((isPlaced, at) => isPlaced && episodes[at] >= minGroupSize && counts[at] > 0);
  return {
    between,
    within: Math.max(0, sumOfSquares(values) - between),
    left_out: sumOfSquares(values.map((value, at) => value - (own[at] ? means[at] : byRole[at]))),
    groups: new Set(labels.filter((_, at) => placed[at])).size,
    by_country: own.filter((isOwn) => !isOwn).length,
  };
}
