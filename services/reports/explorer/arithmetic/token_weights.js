"use strict";
// The weight of one trained token in the loss: the named normalisers.
const NORMALIZER_OF_LOSS = {
  bnpo: "token",
  dapo: "batch_token",
  cispo: "batch_token",
  dr_grpo: "max_completion_length",
  grpo: "turn",
  rloo: "turn",
};

// The normaliser in force: the one set or, under "auto", the loss type's own.
function namedNormalizer(learner) {
  return learner.normalizer === "auto" ? NORMALIZER_OF_LOSS[learner.loss_type] : learner.normalizer;
}

// The weight of one trained token of each turn of an optimizer step, from the turns' numbers of trained tokens and
// their episodes; 0 for turns without any. ``maxCompletionLength``, in tokens, is for the normaliser of that name, and
// ``batchTokensPerStep``, the update's trained tokens over its optimizer steps an epoch, for "batch_token".
function turnTokenWeights(normalizer, trainedTokens, episodes, { maxCompletionLength, batchTokensPerStep }) {
  const present = trainedTokens.filter((count) => count > 0).length;
  const tokens = sumOf(trainedTokens);
  const ofEpisode = new Map();
  trainedTokens.forEach((count, turn) => {
    if (count > 0) ofEpisode.set(episodes[turn], (ofEpisode.get(episodes[turn]) ?? 0) + count);
  });
  const divisors = {
    token: () => tokens,
    batch_token: () => batchTokensPerStep,
    turn: (count) => count * present,
    episode: (_, turn) => ofEpisode.get(episodes[turn]) * ofEpisode.size,
    max_completion_length: () => present * maxCompletionLength,
  };
  return trainedTokens.map((count, turn) => (count > 0 ? 1 / divisors[normalizer](count, turn) : 0));
}
