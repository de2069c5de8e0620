"use strict";
// Group-relative advantages and the running baseline of each role.
const SCALE_EPSILON = 1e-4; // keeps a nearly constant group from amplifying its noise
const RUNNING_LIMIT = 3; // deviations; bounds the advantages of a role whose past returns were nearly constant

// The advantages in the samples' order, rounded to float32, and the statistics of each group. ``shrunk`` has the shrunk
// statistics by level, or is null. A group with ``zero_variance`` gives exactly 0.
function groupAdvantages(returns, groups, running, { scale, leaveOneOut, owners, shrunk }) {
  const centred = new Array(returns.length).fill(0);
  const divisor = new Array(returns.length).fill(1);
  const statistics = groups.map((group) => {
    if (group.level === RUNNING_LEVEL) return runningStatistics(returns, group, ownValue(running, group.key[0]));
    if (shrunk !== null) return shrunkStatistics(shrunk.get(group.level), group, leaveOneOut);
    return ownStatistics(returns, group, leaveOneOut ? owners : null);
  });
  groups.forEach((group, place) => {
    const { std, zero_variance: zeroVariance, baselines } = statistics[place];
    if (zeroVariance) return;
    group.decided.forEach((sample, position) => {
      centred[sample] = returns[sample] - baselines[position];
      const least = group.level === RUNNING_LEVEL ? Math.abs(centred[sample]) / RUNNING_LIMIT : 0;
      divisor[sample] = Math.max(std, least);
    });
  });
  return { advantages: scaled(centred, divisor, scale).map(Math.fround), statistics };
}

function scaled(centred, divisor, scale) {
  if (scale === "group") return centred.map((value, sample) => value / (divisor[sample] + SCALE_EPSILON));
  if (scale === "none" || centred.every((value) => value === 0)) return centred;
  const root = Math.sqrt(sumOfSquares(centred) / centred.length) + SCALE_EPSILON;
  return centred.map((value) => value / root);
}

// ``baseline`` is the role's mean and variance before this batch; undefined if there is none.
function runningStatistics(returns, { decided }, baseline) {
  const [mean, variance] = baseline ?? [NaN, NaN];
  const zeroVariance = baseline === undefined || decided.every((sample) => returns[sample] === mean);
  return statisticsOf(mean, Math.sqrt(variance), zeroVariance, 1, new Array(decided.length).fill(mean));
}

// The statistics of the members alone; ``owners`` are the samples' episodes under leave-one-out, else null.
function ownStatistics(returns, { members, decided }, owners) {
  const values = pick(returns, members);
  const constant = areAllEqual(values);
  const mean = meanOf(values); // exact for equal float32 numbers
  const alone = owners !== null && areAllEqual(pick(owners, members));
  const baselines = owners === null ? decided.map(() => mean) : leftOutMeans(values, members, decided, owners);
  return statisticsOf(mean, constant ? 0 : Math.sqrt(varianceOf(values, 1)), constant || alone, 1, baselines);
}

function leftOutMeans(values, members, decided, owners) {
  const { means } = meansOfOtherEpisodes(values, members.map(() => 0), pick(owners, members));
  const ofMember = new Map(members.map((member, position) => [member, means[position]]));
  return decided.map((sample) => ofMember.get(sample));
}

function shrunkStatistics(level, { members, decided }, leaveOneOut) {
  const [first] = members;
  const zeroVariance = level.constant[first] || (leaveOneOut && level.alone[first]);
  const baselines = pick(leaveOneOut ? level.restMean : level.mean, decided);
  return statisticsOf(level.mean[first], Math.sqrt(level.variance[first]), zeroVariance, level.share[first], baselines);
}

// ``share`` is how much of the mean is the group's own; ``baselines`` are what the decided samples are compared with.
function statisticsOf(mean, std, zeroVariance, share, baselines) {
  return { mean, std, zero_variance: zeroVariance, share, baselines };
}
