"use strict";
// Ways to group that the page can try on a recorded update.
const CLUSTERS = ["auto", "adaptive", "dirichlet"];
const HAND_FACT = "by_hand"; // which part of a number's range, between boundaries drawn by hand

// What each strategy needs: facts that the episodes or turns must have. ``keys`` gets the role's name and the choice.
const STRATEGIES = [
  {
    id: "trained", label: "as in training", needs: [], keys: null,
    note: "The keys that the run had when it made this update.",
  },
  {
    id: "none", label: "none: one mean for all", needs: [], keys: null,
    note: "The whole batch is one group, roles mixed, as plain GRPO would have it.",
    warning: "This baseline mixes roles: a strong role looks good whatever it does. Entente refuses it in training.",
  },
  {
    id: "role", label: "by role", needs: [], keys: (role) => [role],
    note: "Each role is compared with itself.",
  },
  {
    id: "phase", label: "role and phase", needs: ["phase"], keys: (role) => [`${role}+phase`, role],
    note: "Decisions of the same phase are compared.",
  },
  {
    id: "unphased", label: "as in training, without phases", needs: ["phase"], keys: (role, { trained }) =>
      withoutPart(trained, "phase", role),
    note: "The run's own keys, with phases left out of them.",
  },
  {
    id: "segment", label: "role and segment", needs: ["segment"], keys: (role) => [`${role}+segment`, role],
    note: "Opening, midgame and endgame are apart.",
  },
  {
    id: "centers", label: "role and own centres", needs: ["own_centers"], keys: (role) => [`${role}+own_centers`, role],
    note: "Decisions that began with as many centres are compared.",
  },
  {
    id: "lineup", label: "role and line-up", needs: ["lineup"], keys: (role) => [`${role}+lineup`, role],
    note: "Games against the same opponents are compared.",
  },
  {
    id: "start", label: "role and same start", needs: ["start"], keys: (role) => [`${role}+start`, role],
    note: "Episodes that began at the same start, such as one question or one seed, are compared.",
  },
  {
    id: "alliance", label: "role and alliance", needs: ["alliance"], keys: (role) => [`${role}+alliance`, role],
    note: "The alliances that were known before the turn keep games apart.",
  },
  {
    id: "fork", label: "role and fork", needs: ["fork"], keys: (role) => [`${role}+fork`, role],
    note: "Games that go on from the same saved position are compared; others fall back to the role.",
  },
  ...CLUSTERS.map((kind) => ({
    id: kind, label: { auto: "auto: k-means", adaptive: "adaptive: k-means that follows the play", dirichlet:
      "Dirichlet process" }[kind], needs: [], clusters: true, keys: (role) => [`${role}+${kind}`, role],
    note: "Clusters of the numbers that are known when an episode starts, within each role.",
  })),
  {
    id: "bins", label: "bins of a number", needs: [], number: true, keys: (role, { fact, number }) =>
      [`${role}+${fact}:${number}`, role],
    note: "The chosen number, in bins of equal size.",
  },
  {
    id: "hand", label: "by hand: drag the boundaries", needs: [], number: true, keys: (role) =>
      [`${role}+${HAND_FACT}`, role],
    note: "Draw the boundaries between groups over the dots.",
  },
  {
    id: "outcome", label: "by outcome (do not)", needs: [], keys: (role, { number }) => [`${role}+return:${number}`, role],
    note: "Groups made from the return itself.",
    warning: "Known only after the actions it would judge. It takes the signal away: good games are compared with good " +
      "games. Entente refuses it unless grouping.allow_outcome_keys is set.",
  },
];

// The run's keys without what changes within an episode, for samples that are episodes.
function keysOfEpisodes(keys, trace, role) {
  const { episodes, turns } = trace.batch;
  const changing = Object.keys(turns.facts).filter((name) => !(name in episodes.facts) && name !== "task");
  return changing.reduce((left, name) => withoutPart(left, name, role), keys);
}

// Key expressions without one of their parts, and without the repetitions that this leaves.
function withoutPart(keys, part, role) {
  const left = keys.map((key) => key.split("+").filter((name) => name !== part).join("+")).filter((key) => key !== "");
  return left.length > 0 ? [...new Set(left)] : [role];
}

// Whether this world has such a fact at all; a page that does not say which facts its world has is asked for all.
const knowsFact = (run, trace, name) => run.facts === undefined || run.facts.includes(name) ||
  name in trace.batch.episodes.facts || name in trace.batch.turns.facts;

// A strategy and why it cannot be tried on this update; null if it can.
function strategyProblem(strategy, trace, learner) {
  const samplesAreTurns = learner.returns !== "episode";
  const has = (name) => {
    const column = trace.batch.episodes.facts[name] ?? (samplesAreTurns ? trace.batch.turns.facts[name] : undefined);
    return column !== undefined && (name === "fork" ? column.some(isPresent) : column.every(isPresent));
  };
  const missing = strategy.needs.find((name) => !has(name));
  if (missing !== undefined) {
    const ofTurn = !samplesAreTurns && missing in trace.batch.turns.facts;
    return ofTurn ? `${missing} changes within an episode: choose returns by turn` : `no ${missing} was recorded`;
  }
  if (strategy.clusters && !trace.clusters) return "clusters were made for fewer updates, and this is none of them";
  if (strategy.clusters && !trace.clusters.features) return "no number known at the start varies here";
  if (strategy.number && numericFacts(trace).length === 0) return "no number was recorded that varies";
  return null;
}

const strategyOf = (id) => STRATEGIES.find((each) => each.id === id) ?? STRATEGIES[0];

// The settings of learner and grouping with what the page changes; ``keys`` null: one group of everything.
function settingsFor(id, choice, run, trace) {
  const strategy = strategyOf(id);
  const learner = { ...trace.learner };
  if (choice.returns !== null) learner.returns = choice.returns;
  const grouping = { ...trace.grouping };
  if (choice.baseline !== null) grouping.baseline = choice.baseline;
  if (choice.scale !== null) grouping.scale_rewards = choice.scale;
  if (choice.shrinkage !== null) grouping.shrinkage = choice.shrinkage;
  if (choice.weights !== null) grouping.group_weights = choice.weights;
  if (strategy.keys !== null) {
    grouping.keys = strategy.keys(run.role_name, { fact: factFor(choice, trace), number: choice.number, trained:
      trace.grouping.keys });
  }
  else if (learner.returns === "episode") grouping.keys = keysOfEpisodes(grouping.keys, trace, run.role_name);
  const { level } = numericFacts(trace).find(({ name }) => name === factFor(choice, trace)) ?? {};
  if (id === "outcome" || (strategy.number && level === "outcome")) grouping.allow_outcome_keys = true;
  if (id === "bins" && level === "turn") grouping.allow_outcome_keys = true; // later turns decide earlier ones' bins
  return { learner, grouping };
}

// The number that bins, boundaries and the x axis are about: the one chosen, or the first that varies within a role, since
// others divide no role; of those known before all others.
function factFor(choice, trace) {
  const numbers = numericFacts(trace);
  if (numbers.some(({ name }) => name === choice.fact)) return choice.fact;
  const known = numbers.filter(({ level }) => level !== "outcome");
  return (known.find(({ name }) => variesWithinARole(trace, name)) ?? known[0] ?? numbers[0])?.name ?? null;
}

function variesWithinARole(trace, name) {
  const values = valuesOfFact(trace, name);
  const { role } = trace.episodes;
  const roles = values.length === role.length ? role : trace.episodeOfTurn.map((episode) => role[episode]);
  const first = new Map();
  return values.some((value, place) => {
    if (!first.has(roles[place])) first.set(roles[place], value);
    return first.get(roles[place]) !== value;
  });
}

// The boundaries drawn by hand; at first they divide the number's range evenly.
function cutsFor(choice, trace) {
  const given = (choice.cuts ?? "").split("_").filter((text) => text !== "").map(Number).filter(Number.isFinite);
  if (given.length > 0) return given.sort((left, right) => left - right);
  const [low, high] = extentOf(valuesOfFact(trace, factFor(choice, trace))) ?? [0, 1];
  const parts = Math.min(Math.max(choice.number, 2), 8);
  const between = valuesOfFact(trace, factFor(choice, trace)).every((value) => Number.isInteger(value)) ? (cut) =>
    Math.floor(cut) + 0.5 : (cut) => cut; // no value lies on a boundary
  const even = Array.from({ length: parts - 1 }, (_, place) => between(low + ((high - low) * (place + 1)) / parts));
  return [...new Set(even)];
}

function valuesOfFact(trace, name) {
  const { episodes, turns } = trace.batch;
  return episodes.facts[name] ?? turns.facts[name] ?? episodes.outcome[name] ?? [];
}

// The batch with the facts that a strategy needs besides the recorded ones.
function batchFor(id, choice, trace) {
  const { batch } = trace;
  const strategy = strategyOf(id);
  if (strategy.clusters) {
    const labels = trace.clusters[id][nearestNumber(Object.keys(trace.clusters[id]).map(Number), choice.number)];
    return { ...batch, episodes: { ...batch.episodes, facts: { ...batch.episodes.facts, [id]: labels } } };
  }
  if (id !== "hand") return batch;
  const fact = factFor(choice, trace);
  const cuts = cutsFor(choice, trace);
  const part = (value) => cuts.filter((cut) => value >= cut).length;
  const labels = valuesOfFact(trace, fact).map(part);
  const level = fact in batch.turns.facts && !(fact in batch.episodes.facts) ? "turns" : "episodes";
  return { ...batch, [level]: { ...batch[level], facts: { ...batch[level].facts, [HAND_FACT]: labels } } };
}

function nearestNumber(numbers, wanted) {
  return numbers.reduce((best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best));
}
