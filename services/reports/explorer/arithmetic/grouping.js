"use strict";
// Samples to groups by declared keys, with a fallback chain. A sample is what gets one advantage: an episode or a turn.
const RUNNING_LEVEL = "running"; // of groups that are compared with their role's running baseline
const UNPLACED = -1; // the label of a sample that a key expression does not place

// The batch's samples in order, with each one's episode, and what is needed to look up their facts.
function sampleTable(batch, returnsKind) {
  const { role, turns } = batch.episodes;
  const samples = [];
  let turn = 0;
  for (let episode = 0; episode < role.length; episode += 1) {
    if (returnsKind === "episode") {
      samples.push({ role: role[episode], episode, turn: null });
      continue;
    }
    for (const end = turn + turns[episode]; turn < end; turn += 1) samples.push({ role: role[episode], episode, turn });
  }
  const owners = samples.map((sample) => sample.episode);
  return { batch, samples, owners, turnFacts: changingFacts(batch, samples), outcomeReturns: null };
}

const isPresent = (value) => value !== undefined && value !== null;

// Names of the facts that some sample has from its turn, not from its episode.
function changingFacts(batch, samples) {
  const names = Object.keys(batch.turns.facts).filter((name) => name !== "task" && name !== batch.role_name);
  const changes = (name) => {
    const ofTurn = batch.turns.facts[name];
    const ofEpisode = ownValue(batch.episodes.facts, name) ?? [];
    return samples.some(({ episode, turn }) => isPresent(ofTurn[turn]) && !isPresent(ofEpisode[episode]));
  };
  return new Set(names.filter(changes));
}

// One fact of every sample, null where a sample lacks it. A fact of the episode wins over one of the turn. Outcomes
// come last, and are facts only where ``outcomeReturns`` has the samples' returns.
function factColumn(table, name) {
  const { batch, samples, outcomeReturns } = table;
  if (name === batch.role_name) return samples.map((sample) => sample.role);
  const ofEpisode = ownValue(batch.episodes.facts, name);
  const ofTurn = ownValue(batch.turns.facts, name);
  const outcome = OUTCOME_FACTS.has(name) ? ownValue(batch.episodes.outcome, name) : undefined;
  return samples.map(({ episode, turn }, sample) => {
    const known = ofEpisode?.[episode] ?? (name === "task" ? batch.episodes.task[episode] : ofTurn?.[turn]) ?? null;
    if (known !== null || outcomeReturns === null) return known;
    if (name === "return") return outcomeReturns[sample];
    return name === "length" ? batch.episodes.turns[episode] : outcome?.[episode] ?? null;
  });
}

function presentFact(table, name, asker) {
  const values = factColumn(table, name);
  const place = values.indexOf(null);
  if (place < 0) return values;
  throw new Error(`${asker} needs the fact ${name}, which a sample of ${table.samples[place].role} does not have.`);
}

// One fact of an expression as part of every sample's key; null where the optional fact is absent.
function keyColumn(table, { name, bins }, expression) {
  const optional = name === FORK_FACT;
  const values = optional ? factColumn(table, name) : presentFact(table, name, `The key expression ${expression}`);
  if (bins === null) return values.map(asKey);
  const wrong = values.find((value) => !Number.isFinite(value));
  if (wrong !== undefined) throw new Error(`The fact ${name} is ${wrong}, but only finite numbers have quantile bins.`);
  return quantileBins(table.owners, values, bins);
}

// The bin of each value by its middle rank in the batch. An episode counts once with each value it had.
function quantileBins(owners, values, bins) {
  const ofEpisode = new Map(owners.map((owner) => [owner, new Set()]));
  owners.forEach((owner, sample) => ofEpisode.get(owner).add(values[sample]));
  const seen = [...ofEpisode.values()].flatMap((distinct) => [...distinct]).sort((left, right) => left - right);
  const binOf = new Map();
  for (let first = 0, end = 0; first < seen.length; first = end) {
    while (end < seen.length && seen[end] === seen[first]) end += 1;
    binOf.set(seen[first], Math.floor(((first + end) * bins) / (2 * seen.length)));
  }
  return values.map((value) => binOf.get(value));
}

// What one key expression makes of all samples, groups of any size: keys and members in order of the first member.
function levelOf(table, expression, grouping) {
  const { role_name: roleName } = table.batch;
  const facts = parseExpression(expression, roleName, grouping.allow_outcome_keys, table.turnFacts);
  const columns = facts.map((fact) => keyColumn(table, fact, expression));
  const labels = labelsOfKeys(columns, table.samples.length);
  const keys = [];
  const members = [];
  labels.forEach((label, sample) => {
    if (label === UNPLACED) return;
    if (label === keys.length) {
      keys.push(columns.map((column) => column[sample]));
      members.push([]);
    }
    members[label].push(sample);
  });
  return { expression, keys, members, labels };
}

const levelsOf = (table, grouping) => grouping.keys.map((expression) => levelOf(table, expression, grouping));

// Numbers from 0 for the distinct keys in order of the first sample of each; UNPLACED where a part of the key is null.
function labelsOfKeys(columns, count) {
  let labels = new Array(count).fill(0);
  for (const column of columns) {
    const numbers = numbered(column);
    const pairs = new Map();
    labels = labels.map((label, sample) => {
      if (label === UNPLACED || column[sample] === null) return UNPLACED;
      const pair = label * count + numbers[sample];
      if (!pairs.has(pair)) pairs.set(pair, pairs.size);
      return pairs.get(pair);
    });
  }
  return labels;
}

// Groups that decide each sample's advantage exactly once, from fine to coarse. One with samples of ``minGroupSize``
// episodes decides those of its members that no finer group decided; all of its members make its baseline.
function groupsOf(table, levels, minGroupSize) {
  const { samples, owners } = table;
  const waiting = new Array(samples.length).fill(true);
  const groups = [];
  for (const { expression, keys, members } of levels) {
    members.forEach((own, label) => {
      const decided = own.filter((sample) => waiting[sample]);
      if (decided.length === 0 || episodeCount(owners, own) < minGroupSize) return;
      groups.push({ key: keys[label], level: expression, members: own, decided });
      for (const sample of decided) waiting[sample] = false;
    });
  }
  const left = [...samples.keys()].filter((sample) => waiting[sample]);
  for (const [role, places] of placesByValue(left.map((sample) => samples[sample].role))) {
    const own = pick(left, places);
    groups.push({ key: [role], level: RUNNING_LEVEL, members: own, decided: own });
  }
  return groups;
}

// The number of different episodes of samples in their order.
function episodeCount(owners, members) {
  return members.filter((sample, place) => place === 0 || owners[sample] !== owners[members[place - 1]]).length;
}
