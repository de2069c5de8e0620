"use strict";
// The loss of one token, step by step, and what its parts do to all recorded tokens of the update.

function lossSteps(context, turn) {
  const { rows, choice, trace } = context;
  const recorded = trace.recorded.get(turn);
  if (!recorded) {
    return [element("p", { class: "notice" }, `The tokens of this turn ${withoutTokens(trace)}, so the steps end here. `,
      toTokens(context))];
  }
  const token = choice.token ?? 0;
  const row = rows.byPlace.get(`${turn}/${token}`);
  const written = element("section", { class: "card padded", id: "written" },
    tokenText({ ...context, choice: { ...choice, turn, token } }));
  if (row === undefined) return [written]; // which says why
  const shown = { ...lossOfRow(rows, row, recorded, token, trace.turns.trained[turn]),
    ratioIsOne: switchedOff(choice).has("ratio") };
  const parts = [ratioStep(shown), surrogateStep(shown)];
  if (shown.loss.importance !== null) parts.push(importanceStep(shown));
  if (shown.settings.beta > 0) parts.push(klStep(shown));
  if (shown.settings.entropy_coef > 0) parts.push(entropyStep(shown));
  parts.push(normalizerStep(shown), totalStep(shown, slopeInTraining(context, turn, token)));
  return [written, element("h2", {}, `Token “${tokenWord(trace, turn, token)}”`), ...parts];
}

// Why the run recorded no pass of a turn whose tokens it recorded.
function withoutPass({ trace, trained }, turn) {
  const isKnown = trained.problem === null;
  if (isKnown && lossAdvantages(trace, trained)[turn] !== 0) {
    return "Another process of the learner computed this turn, and only the one that writes the record keeps passes, so " +
      "the steps end here.";
  }
  if (isKnown && trained.advantages[trained.sample_of_turn[turn]] !== 0) {
    return `The run keeps the largest ${percent(trace.learner.top_advantage_quantile)} of the advantages alone. This turn's ` +
      "was not among them, so its tokens had no pass and no gradient.";
  }
  return "Its advantage was 0 when the run made this update, so its tokens had no pass and no gradient.";
}

function lossOfRow(rows, row, recorded, token, turnTokens) {
  const { settings, tokens, losses, weights } = rows;
  return {
    settings, loss: losses[row], weight: weights[row], turnTokens, advantage: tokens.advantages[row],
    logprob: tokens.logprobs[row], old: (settings.decoupled ? tokens.proximal : tokens.behaviour)[row],
    behaviour: tokens.behaviour[row], proximal: tokens.proximal[row], reference: tokens.reference[row],
    entropy: tokens.entropy[row], admissible: recorded.admissible[token] ?? 0,
  };
}

const RATIO_TEXTS = {
  token: ["ρ = exp(log π − log π_old)", "One ratio for each token, as in PPO and plain GRPO."],
  turn_mean: ["ρ = exp(mean over the turn of log π − log π_old)", "One ratio for the whole turn, as in GSPO."],
  turn_sum: ["ρ = exp(sum over the turn of log π − log π_old)", "The ratio of the whole turn's probability, as in RLOO."],
};

function ratioStep({ settings, loss, logprob, old, admissible, ratioIsOne }) {
  if (ratioIsOne) {
    return step("Importance ratio", "ρ is taken as 1", "ρ = 1",
      "Switched off: as if the weights that learn had sampled the token.");
  }
  const level = ratioLevel(settings);
  const [formula, note] = RATIO_TEXTS[level];
  const among = admissible > 0 ? ` It was one of ${admissible} admissible tokens; both probabilities are over these.` : "";
  const own = `log π = ${formatNumber(logprob)}, log π_old = ${formatNumber(old)}`;
  const ratio = `ρ = ${formatNumber(Math.exp(loss.logRatio))}`;
  const filled = level === "token" ? `${own}, ${ratio}` : `${level === "turn_sum" ? "sum" : "mean"} over the turn: log ρ = ${
    formatNumber(loss.logRatio)}, ${ratio}; this token alone: ${own}`;
  return step("Importance ratio", formula, filled, note + among);
}

function surrogateStep({ settings, loss, advantage }) {
  const { epsilon, epsilon_high: high, delta, loss_type: kind } = settings;
  const ratio = Math.exp(loss.logRatio);
  const clipped = { low: "The lower bound removed its gradient.", high: "The upper bound removed its gradient.",
    dual: "The dual clip removed its gradient." };
  if (kind === "cispo") {
    return step("Surrogate (CISPO)", "L = −min(ρ, ε_high) · A · log π, ρ without gradient",
      `L = ${formatNumber(loss.surrogate)} (ρ = ${formatNumber(ratio)}, bound ${formatNumber(high)}, A = ${
        formatNumber(advantage)})`, loss.clipped ? "The ratio is bounded; the token keeps its gradient." : null);
  }
  const isOff = settings.epsilon_high >= UNBOUNDED;
  const bounds = isOff ? "no bounds" : `bounds ${formatNumber(1 - epsilon)} and ${formatNumber(1 + high)}`;
  return step("Clipped surrogate", isOff ? "L = −ρ · A" : "L = −min(ρ · A, clip(ρ) · A)",
    `ρ = ${formatNumber(ratio)}, ${bounds}${delta === null ? "" : `, dual clip at ${formatNumber(delta)}`}, A = ${
      formatNumber(advantage)}: L = ${formatNumber(loss.surrogate)}`,
    loss.clipped ? clipped[loss.clipped] : isOff ? "Clipping is switched off." : "No bound stops it: the gradient flows.");
}

function importanceStep({ loss, settings }) {
  return step("Off-policy correction", "L ← w · L, w = π_start / π_behaviour, bounded or masked",
    `w = ${formatNumber(loss.importance)}`, settings.importance_sampling_mode ?? "unbounded token weights, or a mask");
}

function klStep({ settings, loss, logprob, reference }) {
  const formulas = { k1: "KL ≈ log π − log π_ref", k2: "KL ≈ (log π_ref − log π)² / 2",
    k3: "KL ≈ exp(d) − d − 1, d = log π_ref − log π" };
  return step("KL penalty", `${formulas[settings.kl_estimator]}, L ← L + β · KL`,
    `d = ${formatNumber(reference - logprob)}, KL = ${formatNumber(loss.kl)}, β = ${formatNumber(settings.beta)}`,
    settings.use_bias_correction_kl ? "Multiplied by the ratio, so that its gradient is the reverse KL's." : null);
}

function entropyStep({ settings, entropy }) {
  return step("Entropy bonus", "L ← L − c · H", `H = ${formatNumber(entropy)} nats, c = ${
    formatNumber(settings.entropy_coef)}`, null);
}

const NORMALIZER_TEXTS = {
  token: "1 / trained tokens of the step: long episodes weigh more.",
  batch_token: "1 / trained tokens of the update over its steps: a token weighs the same in every step.",
  turn: "1 / (the turn's tokens · turns of the step): every turn weighs the same.",
  episode: "1 / (the episode's tokens · episodes of the step): every episode weighs the same.",
  max_completion_length: "1 / (turns of the step · a constant length): a turn's own length does not count.",
};

function normalizerStep({ settings, weight, turnTokens }) {
  const name = namedNormalizer(settings);
  const divisor = !(weight > 0) ? null : name === "turn" ? `(${turnTokens} · ${Math.round(1 / weight / turnTokens)})` :
    ["token", "batch_token"].includes(name) ? String(Number((1 / weight).toPrecision(6))) : null;
  return step("Normaliser", `loss = Σ weight · L, by ${name}`, `weight = ${divisor === null ? "" : `1 / ${divisor} = `}${
    formatNumber(weight)}`, `${NORMALIZER_TEXTS[name]} A step is one optimizer step, of which an update may have several; ` +
    `this turn has ${counted(turnTokens, "trained token")}.`);
}

// The slope under the run's own grouping and loss; null where the page shows just these.
function slopeInTraining({ choice, trace, trained }, turn, token) {
  if (!isWhatIf(choice) || trained.problem !== null) return null;
  const rows = tokenRows(trace, trained, trained.settings.learner, { ...FIRST_CHOICE, pass: choice.pass });
  return slopeOf(rows, turn, token);
}

function totalStep({ loss, weight, settings }, before) {
  const ofTurn = ratioLevel(settings) === "token" ? "" : " The ratio is the turn's, so the slope is of all its tokens.";
  const compared = before === null ? "" : ` In training the slope was ${formatNumber(before)}.`;
  return step("What the token adds", "weight · L, and its slope by log π",
    `${formatNumber(weight)} · ${formatNumber(loss.loss)} = ${formatNumber(weight * loss.loss)}; slope ${formatNumber(
      weight * loss.slope)}`, (loss.slope < 0 ? "The step makes this token more likely." : loss.slope > 0
      ? "The step makes this token less likely." : "The step leaves this token alone.") + ofTurn + compared);
}

function lossControls(context) {
  const { choice, choose, trace } = context;
  const { learner } = trace;
  const off = switchedOff(choice);
  const flip = (id) => (on) => {
    const next = new Set(off);
    if (on) next.add(id);
    else next.delete(id);
    choose({ ablations: [...next].join("_") });
  };
  return element("div", { class: "control-card card" }, element("h3", {}, "What if the loss were another?"),
    element("div", { class: "controls" },
      dropdown("Loss", knownOptions("loss"), choice.loss ?? learner.loss_type, (loss) =>
        choose({ loss: unlessOwn(loss, learner.loss_type) })),
      dropdown("Normaliser", knownOptions("normalizer"), choice.normalizer ?? learner.normalizer, (normalizer) =>
        choose({ normalizer: unlessOwn(normalizer, learner.normalizer) })),
      ...ABLATIONS.filter(({ applies }) => applies(learner)).map(({ id, label }) => toggle(label, off.has(id), flip(id)))),
    differences(context));
}

// How this loss differs from plain GRPO, in words.
function differences({ rows, choice, trace, judged }) {
  const { settings } = rows;
  const items = [];
  for (const [name, value] of Object.entries(PLAIN_GRPO)) {
    if (settings[name] !== value) items.push(`${name} = ${settings[name] ?? "off"} (plain GRPO: ${value ?? "off"})`);
  }
  const normalizer = namedNormalizer(settings);
  if (normalizer !== "turn") items.push(`normaliser by ${normalizer} (plain GRPO: by turn, that is by completion)`);
  if (settings.epsilon_high >= UNBOUNDED) items.push("no clipping (plain GRPO: between 0.8 and 1.2)");
  else if (settings.epsilon_high !== 0.2 || settings.epsilon !== 0.2) {
    items.push(`epsilon = ${formatNumber(settings.epsilon)} and epsilon_high = ${formatNumber(settings.epsilon_high)} ` +
      "(plain GRPO: both 0.2)");
  }
  if (settings.beta === 0) items.push("no KL penalty (plain GRPO: beta 0.04)");
  else items.push(...differencesOfPenalty(settings));
  if (settings.top_advantage_quantile < 1) {
    items.push(`the largest ${percent(settings.top_advantage_quantile)} of the advantages alone (plain GRPO: all)`);
  }
  if (switchedOff(choice).has("ratio")) items.push("the importance ratio taken as 1");
  const text = items.length === 0 ? "This is plain GRPO's loss." : `Against plain GRPO: ${items.join("; ")}.`;
  return element("div", {}, element("p", { class: "soft" }, text), ...lossWarnings(settings, trace, judged).map((each) =>
    notice(each, "warning")));
}

const PLAIN_GRPO = { loss_type: "grpo", importance_sampling_level: "token", delta: null, decoupled: false,
  off_policy_mask_threshold: null, entropy_coef: 0 };

function differencesOfPenalty({ beta, kl_estimator: estimator, use_bias_correction_kl: corrected }) {
  return [
    ...(beta === 0.04 ? [] : [`beta = ${formatNumber(beta)} (plain GRPO: 0.04)`]),
    ...(estimator === "k3" ? [] : [`KL by ${estimator} (plain GRPO: k3)`]),
    ...(corrected ? ["the KL's gradient corrected by the ratio (plain GRPO: not)"] : []),
  ];
}

// What Entente would refuse in training, and what the slopes above are not.
function lossWarnings(settings, trace, judged) {
  const found = [];
  const { baseline, gradient_surgery: surgery } = judged.settings.grouping;
  if (settings.loss_type === "rloo" && baseline !== "leave_one_out") {
    found.push("RLOO needs the baseline “leave one out”; Entente refuses it with another.");
  }
  if (settings.loss_type === "rloo" && settings.decoupled && !["sequence_truncate", "sequence_mask"].includes(
    settings.importance_sampling_mode)) {
    found.push("RLOO weighs whole turns; Entente refuses it with off-policy weights of single tokens.");
  }
  if (namedNormalizer(settings) === "max_completion_length" && settings.max_completion_length === null) {
    found.push("The run set no max_completion_length, so the longest turn of this update stands for it.");
  }
  if (trace.learner.decoupled && !settings.decoupled) {
    found.push("Without the correction the ratio and its bounds are against the behaviour policy, no longer against the " +
      "weights at the update's start.");
  }
  if (surgery !== undefined && surgery !== "none") {
    found.push(`The run changed its groups' gradients by ${surgery}: a token's slope here is the one before that.`);
  }
  return found;
}

// Whose tokens the update's figures are about.
function recordedText(trace, run) {
  const fewer = trace.tokens_left_out > 0 ? ` ${counted(trace.tokens_left_out, "more turn")} with tokens had no room on ` +
    "this page." : "";
  const episodes = new Set(trace.tokens.map(({ turn }) => trace.episodeOfTurn[turn]));
  const roles = [...new Set([...episodes].map((episode) => roleOf(run, trace.episodes.role[episode]).label))];
  return `Recorded are the tokens of ${counted(episodes.size, "episode")} (${roles.join(", ")}); each update records other ` +
    `ones. This update trained ${formatNumber(sumOf(trace.turns.trained))} tokens in all: “Course” has the share of all that ` +
    `was clipped.${fewer}`;
}

// Each token of a pass with its slope as it is (``left``) and as it would be without clips (``whole``).
function tokensBesideUnclipped({ settings, places, losses, weights, tokens }, pass) {
  if (places.length === 0) return [];
  const open = { ...settings, epsilon: 1 - 1e-12, epsilon_high: settings.loss_type === "cispo" ? settings.epsilon_high :
    UNBOUNDED, delta: null };
  const unclipped = tokenLosses(tokens, open);
  return places.map(({ turn, token }, row) => ({
    turn, token, pass, bound: losses[row].clipped, ratio: Math.exp(losses[row].logRatio), advantage: tokens.advantages[row],
    left: weights[row] * losses[row].slope, whole: weights[row] * unclipped[row].slope,
  }));
}

// What clipping removed of the recorded tokens' pull.
function clippingFigure({ rows, run, trace, choose, choice, judged }) {
  const passes = everyPass(trace, judged, judged.settings.learner, choice);
  const all = passes.flatMap((each, pass) => tokensBesideUnclipped(each, pass));
  if (all.length === 0) {
    return notice("No token of this update was recorded with a pass, so there is nothing to say about clipping.");
  }
  const before = sumOf(all.map(({ whole }) => Math.abs(whole)));
  const after = sumOf(all.map(({ left }) => Math.abs(left)));
  const clipped = all.filter(({ bound }) => bound !== null).sort((one, other) => Math.abs(other.whole) - Math.abs(one.whole));
  const ofPass = (pass) => (passes.length > 1 ? `, pass ${pass + 1}` : "");
  const rowsShown = clipped.map(({ turn, token, pass, bound, ratio, advantage, whole }) => ({
    cells: [`${tokenWord(trace, turn, token)} in ${turnName(trace, turn)} of ${episodeName(run, trace,
      trace.episodeOfTurn[turn])}${ofPass(pass)}`, bound, ratio, advantage, whole],
    onPress: () => choose({ episode: trace.episodeOfTurn[turn], turn, token, pass }),
    selected: choice.turn === turn && choice.token === token && choice.pass === pass,
  }));
  const counts = passes.length > 1 ? ` A token counts once for each of the ${formatNumber(passes.length)} passes.` : "";
  const removed = before > 0 ? Math.max(0, 1 - after / before) : 0;
  return element("section", { class: "card padded", id: "clipping" }, element("h3", {}, "What did clipping remove?"),
    element("p", { class: "headline" }, `${counted(clipped.length, "token")} of ${formatNumber(all.length)} recorded ` +
      `(${percent(clipped.length / all.length)}) were clipped, and with them ${percent(removed)} of all these tokens' pull.`),
    element("p", { class: "soft" }, recordedText(trace, run) + counts + (clipped.length === 0 ? "" : ` Inside ${
      formatNumber(1 - rows.settings.epsilon)} to ${formatNumber(1 + rows.settings.epsilon_high)} nothing is clipped. ` +
      "A slope below 0 would have made the token more likely.")),
    rows.settings.epsilon_high >= UNBOUNDED ? notice("Clipping is switched off here.") :
    rows.settings.loss_type === "cispo" ? notice("CISPO bounds the ratio and keeps every gradient, so it removes none.") :
    clipped.length === 0 ? notice("Ratios stayed inside the bounds: the weights had hardly moved since the tokens were " +
      "sampled. Later passes (optimizer steps) of an update clip more.") :
      dataTable(["Token", "Bound", "Ratio", "Advantage", "Slope without the clip"], rowsShown, { caption:
        `All ${counted(clipped.length, "clipped token")}, largest first` }));
}
