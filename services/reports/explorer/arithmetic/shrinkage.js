"use strict";
// Empirical Bayes for small groups: a group's mean is shrunk towards the coarser groups of the chain, the more the
// fewer episodes it has. An observation is the mean of one episode's samples in one group.

// Each level's shrunk statistics by its expression. ``mean`` is that of the sample's group, ``restMean`` the same
// without the sample's episode, ``share`` the part that is the group's own. A sample that a level does not place has
// the next coarser level's, and at the coarsest those of its role's unplaced samples.
function shrunkLevels(returns, levels, roles, owners) {
  const units = unitsWithinRoles(returns, roles);
  const found = new Map();
  let parent = null;
  let parentLabels = numbered(roles);
  for (const level of [...levels].reverse()) {
    const whole = level.labels.map((label, sample) => {
      return label === UNPLACED ? level.keys.length + parentLabels[sample] : label;
    });
    if (parent === null) {
      parent = shrunkLevel(returns, whole, owners, null, null);
    } else {
      checkNested(level, parentLabels);
      const components = varianceComponents(...meansByEpisode(units, level, parentLabels, owners));
      parent = shrunkLevel(returns, level.labels, owners, parent, components);
    }
    found.set(level.expression, parent);
    parentLabels = whole;
  }
  return found;
}

// Each role's returns in units of its deviation; NaN for a role whose returns are all equal.
function unitsWithinRoles(returns, roles) {
  const units = new Array(returns.length).fill(NaN);
  for (const own of placesByValue(roles).values()) {
    const values = pick(returns, own);
    if (areAllEqual(values)) continue;
    const [mean, deviation] = [meanOf(values), Math.sqrt(varianceOf(values))];
    own.forEach((sample, place) => (units[sample] = (values[place] - mean) / deviation));
  }
  return units;
}

function checkNested(level, parentLabels) {
  const split = level.members.findIndex((members) => !areAllEqual(pick(parentLabels, members)));
  if (split < 0) return;
  const name = level.keys[split].map(keyText).join("+");
  throw new Error(`Shrinkage needs nested keys, but ${name} of ${level.expression} lies in several coarser groups.`);
}

// The mean value of each episode in each group, with that group and its parent, in order of groups and episodes.
function meansByEpisode(values, level, parentLabels, owners) {
  const [means, children, parents] = [[], [], []];
  level.members.forEach((members, label) => {
    for (let start = 0, end = 0; start < members.length; start = end) {
      const owner = owners[members[start]];
      let sum = 0;
      for (; end < members.length && owners[members[end]] === owner; end += 1) sum += values[members[end]];
      if (!Number.isFinite(sum)) continue;
      means.push(sum / (end - start));
      children.push(label);
      parents.push(parentLabels[members[0]]);
    }
  });
  return [means, numbered(children), numbered(parents)];
}

// The variances within groups and between the groups of one parent, estimated by moments; both are at least 0.
function varianceComponents(values, children, parents) {
  const [childCounts, parentCounts] = [countsByLabel(children), countsByLabel(parents)];
  const [groups, count] = [childCounts.length, values.length];
  if (count === groups || groups === parentCounts.length) return { within: 0, between: 0 };
  const childMeans = sumsByLabel(children, values).map((sum, child) => sum / childCounts[child]);
  const parentMeans = sumsByLabel(parents, values).map((sum, parent) => sum / parentCounts[parent]);
  const parentOf = new Array(groups);
  children.forEach((child, place) => (parentOf[child] = parents[place]));
  const within = sumOfSquares(values.map((value, place) => value - childMeans[children[place]])) / (count - groups);
  const gaps = childMeans.map((mean, child) => mean - parentMeans[parentOf[child]]);
  const squares = sumOf(gaps.map((gap, child) => childCounts[child] * (gap * gap)));
  const spread = count - sumOf(childCounts.map((size, child) => (size * size) / parentCounts[parentOf[child]]));
  return { within, between: Math.max(0, (squares - (groups - parentCounts.length) * within) / spread) };
}

// ``parent`` and the ``components`` of variance are null at the coarsest level, which places all samples.
function shrunkLevel(returns, labels, owners, parent, components) {
  const own = ownLevel(returns, labels, owners);
  if (parent === null) return { ...own, share: own.mean.map(() => 1), alone: own.episodes.map((count) => count === 1) };
  const share = own.episodes.map((count) => shareOfOwn(count, components));
  const restShare = own.episodes.map((count) => shareOfOwn(count - 1, components));
  return {
    mean: mixed(share, own.mean, parent.mean),
    restMean: mixed(restShare, own.restMean, parent.restMean),
    variance: mixed(share, own.variance, parent.variance),
    share,
    constant: parent.constant, // a parent holds all of its children's returns
    alone: parent.alone,
  };
}

// The statistics of the groups alone, for every sample; 0 for unplaced ones.
function ownLevel(returns, labels, owners) {
  const zeros = returns.map(() => 0);
  const [mean, restMean, variance, episodes] = [zeros, [...zeros], [...zeros], [...zeros]];
  const constant = returns.map(() => false);
  const placed = [...labels.keys()].filter((sample) => labels[sample] !== UNPLACED);
  const [values, label, owner] = [pick(returns, placed), pick(labels, placed), pick(owners, placed)];
  const { means: others, counts: left } = meansOfOtherEpisodes(values, label, owner);
  const [sums, counts, inGroup] = [sumsByLabel(label, values), countsByLabel(label), episodesInGroup(label, owner)];
  const first = []; // return of each group
  const varies = []; // true for groups whose returns are not all equal
  label.forEach((group, place) => {
    first[group] ??= values[place];
    if (values[place] !== first[group]) varies[group] = true;
  });
  const means = label.map((group) => sums[group] / counts[group]); // exact for equal float32 numbers
  const squares = sumsByLabel(label, values.map((value, place) => (value - means[place]) ** 2));
  placed.forEach((sample, place) => {
    const group = label[place];
    mean[sample] = means[place];
    restMean[sample] = left[place] > 0 ? others[place] : values[place]; // no other episode: no deviation of its own
    variance[sample] = squares[group] / Math.max(counts[group] - 1, 1);
    episodes[sample] = inGroup[place];
    constant[sample] = !varies[group];
  });
  return { mean, restMean, variance, episodes, constant };
}

// n / (n + within / between) with n episodes; 0 if nothing varies or no episode is left.
function shareOfOwn(episodes, { within, between }) {
  const weight = Math.max(episodes, 0) * between;
  return weight > 0 ? weight / (weight + within) : 0;
}

function mixed(share, own, parent) {
  return share.map((part, sample) => parent[sample] + part * (own[sample] - parent[sample]));
}
