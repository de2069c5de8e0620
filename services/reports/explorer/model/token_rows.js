"use strict";
// The loss of recorded tokens, as it was in the update and as other settings would make it.
const ABLATIONS = [
  { id: "clip", label: "no clipping", applies: (learner) => learner.loss_type !== "cispo" },
  { id: "dual", label: "no dual clip", applies: (learner) => learner.delta !== null },
  { id: "kl", label: "no KL penalty", applies: (learner) => learner.beta > 0 },
  { id: "entropy", label: "no entropy bonus", applies: (learner) => learner.entropy_coef > 0 },
  { id: "offpolicy", label: "no off-policy correction", applies: (learner) =>
    learner.decoupled || learner.off_policy_mask_threshold !== null },
  { id: "ratio", label: "no importance ratio (take it as 1)", applies: () => true },
];
const UNBOUNDED = 1e12; // a ratio that no token has

const switchedOff = (choice) => new Set(choice.ablations.split("_").filter((id) => id !== ""));

// The learner's settings with the page's changes to the loss.
function lossSettings(learner, choice) {
  const off = switchedOff(choice);
  const changed = { ...learner };
  if (choice.loss !== null) changed.loss_type = choice.loss;
  if (choice.normalizer !== null) changed.normalizer = choice.normalizer;
  if (changed.loss_type === "cispo" && changed.epsilon_high < 1) changed.epsilon_high = 5; // it bounds the ratio itself
  if (changed.loss_type !== "cispo" && changed.epsilon_high >= 1 && learner.loss_type === "cispo") {
    changed.epsilon_high = 0.28;
  }
  if (["cispo", "rloo"].includes(changed.loss_type) || off.has("dual")) changed.delta = null;
  if (off.has("clip")) Object.assign(changed, { epsilon: 1 - 1e-12, epsilon_high: UNBOUNDED, delta: null });
  if (off.has("kl")) changed.beta = 0;
  if (off.has("entropy")) changed.entropy_coef = 0;
  if (off.has("offpolicy")) Object.assign(changed, { decoupled: false, off_policy_mask_threshold: null });
  return changed;
}

// The advantages of turns as the loss takes them: all, or the largest alone where the run keeps a share of them.
const lossAdvantages = (trace, judged) => largestShare(pick(judged.advantages, judged.sample_of_turn),
  trace.learner.top_advantage_quantile);

// Every recorded token of an update, in the shape of ``tokenLosses``, with ``places``: turn, token and pass of each.
// Each turn's pass is ``pass`` or its last one; turns without a recorded pass are left out.
function recordedTokens(trace, judged, pass, ratioIsOne) {
  const advantages = lossAdvantages(trace, judged);
  const tokens = { logprobs: [], entropy: [], behaviour: [], advantages: [], row: [], proximal: [], reference: [] };
  const places = [];
  let rows = 0;
  for (const recorded of trace.tokens) {
    const found = recorded.passes[Math.min(pass, recorded.passes.length - 1)];
    if (found === undefined) continue;
    found.logprobs.forEach((logprob, token) => {
      const behaviour = ratioIsOne ? logprob : recorded.behaviour[token];
      tokens.logprobs.push(logprob);
      tokens.entropy.push(found.entropy[token]);
      tokens.behaviour.push(behaviour);
      tokens.proximal.push(ratioIsOne ? logprob : (found.proximal?.[token] ?? logprob));
      tokens.reference.push(found.reference?.[token] ?? logprob);
      tokens.advantages.push(advantages[recorded.turn]);
      tokens.row.push(rows);
      places.push({ turn: recorded.turn, token, step: found.step, recordedWeight: found.weight });
    });
    rows += 1;
  }
  return { tokens: { ...tokens, rows }, places };
}

// The losses of all recorded tokens under a judgement and settings: { places, losses, weights, byPlace }.
function tokenRows(trace, judged, learner, choice) {
  const settings = lossSettings(learner, choice);
  const { tokens, places } = recordedTokens(trace, judged, choice.pass, switchedOff(choice).has("ratio"));
  const losses = places.length === 0 ? [] : tokenLosses(tokens, settings);
  const ofEpochs = new Map(); // each epoch draws minibatches of its own
  const weights = places.map(({ turn, step }) => {
    const epoch = Math.max(0, trace.turns.steps[turn].indexOf(step));
    if (!ofEpochs.has(epoch)) ofEpochs.set(epoch, weightsOfTurns(trace, settings, epoch));
    return ofEpochs.get(epoch)[turn];
  });
  const byPlace = new Map(places.map(({ turn, token }, row) => [`${turn}/${token}`, row]));
  return { settings, tokens, places, losses, weights, byPlace };
}

// The same for each pass in order, with the turns that had so many.
function everyPass(trace, judged, learner, choice) {
  const most = trace.tokens.reduce((highest, { passes }) => Math.max(highest, passes.length), 0);
  return Array.from({ length: most }, (_, pass) => {
    const tokens = trace.tokens.filter(({ passes }) => passes.length > pass);
    return tokenRows({ ...trace, tokens }, judged, learner, { ...choice, pass });
  });
}

// The weight of each turn's tokens in the optimizer step of an epoch, counted from 0, that it had a part in.
function weightsOfTurns(trace, settings, epoch) {
  const { turns, episodes } = trace;
  const weights = new Array(turns.trained.length).fill(0);
  const roles = trace.separate_roles ? [...new Set(episodes.role)] : [null];
  const stepOf = turns.steps.map((steps) => steps[epoch] ?? null); // null: the turn left the loss, or has no token
  for (const role of roles) {
    const own = [...stepOf.keys()].filter((turn) =>
      stepOf[turn] !== null && (role === null || episodes.role[trace.episodeOfTurn[turn]] === role));
    const steps = [...new Set(pick(stepOf, own))];
    const tokens = sumOf(pick(turns.trained, own));
    for (const step of steps) {
      const inStep = own.filter((turn) => stepOf[turn] === step);
      const found = turnTokenWeights(namedNormalizer(settings), pick(turns.trained, inStep),
        pick(trace.episodeOfTurn, inStep), {
          maxCompletionLength: settings.max_completion_length ?? highestOf(turns.written),
          batchTokensPerStep: tokens / steps.length,
        });
      inStep.forEach((turn, place) => (weights[turn] = found[place]));
    }
  }
  return weights;
}
