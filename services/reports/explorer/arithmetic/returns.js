"use strict";
// Returns of samples: one an episode, or for every turn the rewards that follow in the game or in its segment. Sums are
// made in float64 and rounded to float32 once, as the learner does.

// ``G_t = r_t + discount ** elapsed_t * G_{t+1}`` of every turn of an episode.
function returnsToGo(rewards, elapsed, discount) {
  const out = new Array(rewards.length);
  let following = 0;
  for (let turn = rewards.length - 1; turn >= 0; turn -= 1) {
    if (elapsed[turn] < 0) throw new Error(`Turn ${turn} has ${elapsed[turn]} elapsed phases, which count from 0.`);
    following = rewards[turn] + discount ** elapsed[turn] * following;
    out[turn] = Math.fround(following);
  }
  return out;
}

// The rewards from each turn of an episode to the last one of its segment, undiscounted.
function segmentReturns(rewards, segments) {
  const out = new Array(rewards.length);
  let following = 0;
  for (let turn = rewards.length - 1; turn >= 0; turn -= 1) {
    if (segments[turn] === null) throw new Error(`Segment returns need the fact segment, which turn ${turn} lacks.`);
    following = rewards[turn] + (segments[turn] === segments[turn + 1] ? following : 0);
    out[turn] = Math.fround(following);
  }
  return out;
}

// Returns of a batch's samples, its episodes or all turns in episode order.
function sampleReturns(batch, learner) {
  const returns = learner.returns === "episode" ? batch.episodes.reward.map(Math.fround) : turnReturns(batch, learner);
  if (!returns.every(Number.isFinite)) throw new Error("A return is not finite, so look at the rewards.");
  return returns;
}

function turnReturns(batch, learner) {
  const { reward, elapsed, facts } = batch.turns;
  const segments = ownValue(facts, "segment") ?? new Array(reward.length).fill(null);
  const out = [];
  for (const turns of batch.episodes.turns) {
    const start = out.length;
    const rewards = reward.slice(start, start + turns);
    const found =
      learner.returns === "segment"
        ? segmentReturns(rewards, segments.slice(start, start + turns))
        : returnsToGo(rewards, elapsed.slice(start, start + turns), learner.discount);
    for (const value of found) out.push(value);
  }
  return out;
}

// Returns less what the line-up's ratings predicted before the game, the fact ``expected_return``.
function opponentAdjusted(returns, table) {
  const expected = presentFact(table, "expected_return", "The opponents' adjustment");
  const wrong = expected.find((value) => !Number.isFinite(value));
  if (wrong !== undefined) throw new Error(`The fact expected_return is ${wrong}, but must be a finite number.`);
  return returns.map((value, sample) => Math.fround(value - expected[sample]));
}
