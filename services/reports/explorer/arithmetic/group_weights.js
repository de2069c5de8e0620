"use strict";
// Weights of groups: bounded factors on advantages whose mean over the batch's episodes is 1.
const SMALLEST_SHARE = 1e-9; // of the largest raw weight, which every group has, so that any mean in the bounds exists
const ABSENT = Symbol("absent"); // a part of a key that is null

// The name of each sample's group under a key expression, such as "FRANCE+opening".
function groupNames(table, expression, grouping) {
  const { role_name: roleName } = table.batch;
  const facts = parseExpression(expression, roleName, grouping.allow_outcome_keys, table.turnFacts);
  const columns = facts.map((fact) => keyColumn(table, fact, expression).map((value) => value ?? ABSENT));
  const taken = new Map();
  const names = [];
  return labelsOfKeys(columns, table.samples.length).map((label, sample) => {
    if (label === names.length) {
      const parts = columns.map((column) => (column[sample] === ABSENT ? "none" : keyText(column[sample])));
      const name = parts.join("+");
      taken.set(name, (taken.get(name) ?? 0) + 1);
      names.push(taken.get(name) > 1 ? `${name}#${taken.get(name)}` : name); // a value may hold a + itself
    }
    return names[label];
  });
}

// The number of episodes in each named group, in order of the first sample.
function episodesByName(names, owners) {
  const episodes = new Map();
  names.forEach((name, sample) => {
    if (!episodes.has(name)) episodes.set(name, new Set());
    episodes.get(name).add(owners[sample]);
  });
  return new Map([...episodes].map(([name, own]) => [name, own.size]));
}

// The weight of each group, from the episodes by name and each group's ``[fast, slow, variance]`` in earlier batches. A
// group without a past has the mean of the others' raw weights.
function groupWeights(kind, counts, progress, lowest, highest) {
  const names = [...counts.keys()];
  const sizes = [...counts.values()];
  const bounded = boundedToMeanOne(rawWeights(kind, names, sizes, progress), sizes, lowest, highest);
  return new Map(names.map((name, group) => [name, bounded[group]]));
}

function rawWeights(kind, names, sizes, progress) {
  if (kind === "balanced") return sizes.map((size) => 1 / size);
  const known = names.map((name) => ownValue(progress, name)).filter((past) => past !== undefined);
  if (kind === "none" || known.length === 0) return names.map(() => 1);
  const weights = kind === "performance" ? weaknesses(known.map(([, slow]) => slow)) : known.map(learningOf);
  const unknown = meanOf(weights);
  let next = 0;
  return names.map((name) => (ownValue(progress, name) === undefined ? unknown : weights[next++]));
}

// More for groups that earn less.
function weaknesses(means) {
  if (areAllEqual(means)) return means.map(() => 1);
  const [center, deviation] = [meanOf(means), Math.sqrt(varianceOf(means))];
  return means.map((mean) => Math.exp(-(mean - center) / deviation));
}

// The recent movement of a group's returns, in deviations of one return.
const learningOf = ([fast, slow, variance]) => (variance > 0 ? Math.abs(fast - slow) / Math.sqrt(variance) : 0);

// The raw weights times the factor, found by bisection, that makes their mean over episodes 1 within the bounds.
function boundedToMeanOne(raw, sizes, lowest, highest) {
  const largest = highestOf(raw);
  if (!(largest > 0)) return raw.map(() => 1);
  const shares = raw.map((weight) => Math.max(weight / largest, SMALLEST_SHARE));
  const weightsAt = (logFactor) => shares.map((share) => boundedTo(Math.exp(logFactor) * share, lowest, highest));
  let low = Math.log(lowest);
  let high = Math.log(highest / SMALLEST_SHARE);
  for (let step = 0; step < 100; step += 1) {
    const middle = (low + high) / 2;
    const total = sumOf(weightsAt(middle).map((weight, group) => weight * sizes[group]));
    if (total / sumOf(sizes) < 1) low = middle;
    else high = middle;
  }
  return weightsAt(high);
}
