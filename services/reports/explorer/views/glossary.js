"use strict";
// Words of the page, in a sentence each; a third text is the fact that a world must have for the word to occur.
const GLOSSARY = [
  ["sample", "What gets one advantage: a whole episode or, with returns by turn, each of its turns."],
  ["role", "What was played, here the {role}. In training, samples of different roles are not compared."],
  ["group", "Samples that are compared with one another. Their mean return is the baseline."],
  ["level", "The key of the chain that made a group, from fine to coarse. A group that is too small falls back to the next."],
  ["running", "The last level: samples without a large enough group are compared with their role's mean of earlier updates."],
  ["judged, members", "A group's members make its mean; it judges those of them that no finer group judged."],
  ["advantage", "The return less the baseline, divided by a deviation. Above 0, what was done is made more likely."],
  ["without signal", "Advantage 0: the return is exactly what it is compared with, as where all returns of a group are equal."],
  ["pull", "The sum of the sizes of advantages, or of tokens' slopes: by how much samples or tokens move the policy. Before " +
    "the normaliser, and before a limit to the largest advantages."],
  ["slope", "The derivative of the loss by a token's log-probability; its weight in the loss included. Below 0, the step makes " +
    "the token more likely."],
  ["line-up", "Who sat at the other seats, versions included.", "lineup"],
  ["fork", "The saved position that an episode went on from.", "fork"],
  ["block", "Episodes that were played from the same start, such as eight answers to one question or " +
    "eight games against the same opponents."],
  ["segment", "Opening, midgame or endgame.", "segment"],
  ["phase", "The part of an episode in which a decision was made.", "phase"],
  ["S1901M", "A phase of a game of Diplomacy: S1901M is the spring of 1901, F is fall and W winter; M is for moves, R for " +
    "retreats, A for adjustments.", "own_centers"],
  ["weighting", "How much the advantages of each {role} count, or of each group that weight_key names: “balanced” gives all " +
    "the same, “performance” gives more to those that earn less, “adaptive” to those whose returns move. The mean weight " +
    "of an episode is 1."],
  ["shrinkage", "A small group's mean is moved towards that of the coarser group that it is part of (its parent)."],
  ["min_group_size", "The run's setting for the fewest episodes that a group may have."],
  ["step", "An optimizer step. An update may have several, of one minibatch each."],
  ["normaliser", "What weighs equally in the loss: tokens, turns, or episodes. “auto” follows the kind of loss."],
  ["forced", "A token without a choice, because only one was legal. It is not trained."],
];

function glossary({ run, trace }) {
  const met = GLOSSARY.filter(([, , fact]) => fact === undefined || !trace || knowsFact(run, trace, fact));
  const items = met.flatMap(([word, text]) => [element("dt", {}, word),
    element("dd", {}, text.replace("{role}", run.role_name))]);
  return element("details", { class: "card padded glossary", "data-key": "glossary" },
    element("summary", {}, "Words of this page"), element("dl", {}, ...items));
}
