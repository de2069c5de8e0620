"use strict";
// Policy losses of single trained tokens, and their slopes: the derivative of the sum of all losses by the token's
// log-probability. ``row`` is the turn of each token, from 0 to ``rows`` - 1.

function turnSums(values, row, rows) {
  const sums = new Array(rows).fill(0);
  values.forEach((value, token) => (sums[row[token]] += value));
  return row.map((turn) => sums[turn]);
}

function turnMeans(values, row, rows) {
  const counts = turnSums(values.map(() => 1), row, rows);
  return turnSums(values, row, rows).map((sum, token) => sum / counts[token]);
}

// "token": the ratio of one token; "turn_mean": a length-normalised one for the whole turn; "turn_sum": the turn's own.
function ratioLevel(learner) {
  if (learner.loss_type === "rloo") return "turn_sum";
  return learner.importance_sampling_level === "sequence" ? "turn_mean" : "token";
}

// The logarithm of the importance ratio of each token's advantage.
function logRatios(logprobs, old, row, rows, level) {
  const gaps = logprobs.map((logprob, token) => logprob - old[token]);
  if (level === "token") return gaps;
  return level === "turn_mean" ? turnMeans(gaps, row, rows) : turnSums(gaps, row, rows);
}

// The slopes by log-probability of a loss with these slopes by the log ratio.
function throughLogRatios(slopes, row, rows, level) {
  if (level === "token") return slopes;
  return level === "turn_mean" ? turnMeans(slopes, row, rows) : turnSums(slopes, row, rows);
}

// ``-min(rho A, clip(rho) A)`` with ``rho`` the ratio, its slope by the log ratio, and which bound removed that slope.
// ``delta``, unless null, bounds the ratio of a negative advantage (dual clip).
function clippedSurrogate(logRatio, advantage, { epsilon, epsilon_high: epsilonHigh, delta }) {
  const lowest = advantage < 0 ? Math.log1p(-epsilon) : -Infinity;
  const dual = delta === null ? Infinity : Math.log(delta);
  const highest = advantage < 0 ? dual : Math.log1p(epsilonHigh);
  const value = -Math.exp(boundedTo(logRatio, lowest, highest)) * advantage;
  const ratio = Math.exp(logRatio);
  let clipped = null;
  if (advantage < 0 && ratio < 1 - epsilon) clipped = "low";
  if (advantage > 0 && ratio > 1 + epsilonHigh) clipped = "high";
  if (advantage < 0 && delta !== null && ratio > delta) clipped = "dual";
  const byRatio = logRatio >= lowest && logRatio <= highest ? value : 0;
  return { value, byRatio, byLogprob: 0, clipped };
}

// CISPO: ``-min(rho, epsilon_high) A logprob``. The ratio has no slope, so every token keeps one.
function cispoSurrogate(logRatio, logprob, advantage, { epsilon_high: epsilonHigh }) {
  const ratio = Math.exp(logRatio);
  const byLogprob = -Math.min(ratio, epsilonHigh) * advantage;
  const clipped = ratio > epsilonHigh && advantage > 0 ? "high" : null;
  return { value: byLogprob * logprob, byRatio: 0, byLogprob, clipped };
}

// One token's estimate of KL(policy || reference) in nats, and its slope.
function klEstimate(logprob, reference, estimator) {
  const gap = reference - logprob;
  if (estimator === "k1") return { value: -gap, slope: 1 };
  if (estimator === "k2") return { value: (gap * gap) / 2, slope: -gap };
  return { value: Math.exp(gap) - gap - 1, slope: 1 - Math.exp(gap) };
}

// Weights by the proximal over the behaviour policy's probability, bounded as the mode says; they have no slope.
function importanceWeights({ proximal, behaviour, row, rows }, learner) {
  const mode = learner.importance_sampling_mode;
  const lowest = learner.importance_sampling_clip_min ?? -Infinity;
  const highest = learner.importance_sampling_clip_max ?? Infinity;
  const gaps = proximal.map((logprob, token) => logprob - behaviour[token]);
  const ofTurns = mode === "sequence_truncate" || mode === "sequence_mask";
  const weights = (ofTurns ? turnSums(gaps, row, rows) : gaps).map(Math.exp);
  if (mode === null) return weights;
  const truncates = mode === "token_truncate" || mode === "sequence_truncate";
  return weights.map((weight) => {
    const bounded = boundedTo(weight, lowest, highest);
    return truncates || bounded === weight ? bounded : 0;
  });
}

// 1 for kept tokens, and 0 for those of turns of negative advantage whose log-probability fell by more than the
// threshold, in nats a token, since they were sampled.
function offPolicyMask({ logprobs, behaviour, advantages, row, rows }, threshold) {
  const moved = turnMeans(behaviour.map((logprob, token) => logprob - logprobs[token]), row, rows);
  return advantages.map((advantage, token) => (advantage >= 0 || moved[token] <= threshold ? 1 : 0));
}

// The product of the off-policy weights and masks of each token; null without any.
function corrections(tokens, learner) {
  const weights = learner.decoupled ? importanceWeights(tokens, learner) : null;
  const threshold = learner.off_policy_mask_threshold;
  if (threshold === null) return weights;
  const mask = offPolicyMask(tokens, threshold);
  return weights === null ? mask : weights.map((weight, token) => weight * mask[token]);
}

// The loss of each token, surrogate x corrections + beta KL - entropy_coef entropy, with its parts and its ``slope``.
// ``importance`` is null without corrections, and ``kl``, which beta multiplies, without a reference.
function tokenLosses(tokens, learner) {
  const { logprobs, entropy, advantages, reference, row, rows } = tokens;
  const level = ratioLevel(learner);
  const ratios = logRatios(logprobs, learner.decoupled ? tokens.proximal : tokens.behaviour, row, rows, level);
  const importance = corrections(tokens, learner);
  const parts = logprobs.map((logprob, token) => {
    const logRatio = ratios[token];
    const surrogate =
      learner.loss_type === "cispo"
        ? cispoSurrogate(logRatio, logprob, advantages[token], learner)
        : clippedSurrogate(logRatio, advantages[token], learner);
    const factor = importance === null ? 1 : importance[token];
    const kl = learner.beta > 0 ? klOfToken(logprob, reference[token], logRatio, learner) : null;
    const penalty = (part) => (kl === null ? 0 : learner.beta * kl[part]);
    return {
      loss: surrogate.value * factor + penalty("value") - learner.entropy_coef * entropy[token],
      logRatio,
      importance: importance === null ? null : factor,
      kl: kl === null ? null : kl.value,
      surrogate: surrogate.value,
      clipped: surrogate.clipped,
      byRatio: surrogate.byRatio * factor + penalty("byRatio"),
      byLogprob: surrogate.byLogprob * factor + penalty("byLogprob"),
    };
  });
  const byRatio = throughLogRatios(parts.map((part) => part.byRatio), row, rows, level);
  return parts.map(({ byRatio: _, byLogprob, ...part }, token) => ({ ...part, slope: byRatio[token] + byLogprob }));
}

// The KL estimate and its slopes; under the bias correction it is multiplied by the ratio, which has a slope as well.
function klOfToken(logprob, reference, logRatio, learner) {
  const { value, slope } = klEstimate(logprob, reference, learner.kl_estimator);
  if (!learner.use_bias_correction_kl) return { value, byRatio: 0, byLogprob: slope };
  const ratio = Math.exp(logRatio);
  return { value: value * ratio, byRatio: value * ratio, byLogprob: slope * ratio };
}
