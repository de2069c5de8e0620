"use strict";
// What is selected: the update, a group, an episode, a turn with its tokens.

function inspector(context) {
  const { choice, trace } = context;
  if (!trace) return [element("p", { class: "soft" }, "No update is selected.")];
  const parts = [updateCard(context)];
  if (choice.episode !== null && choice.episode < trace.episodes.id.length) parts.push(episodeCard(context));
  if (choice.turn !== null && choice.turn < trace.turns.phase.length) parts.push(turnCard(context));
  return parts;
}

function updateCard(context) {
  const { trace, judged } = context;
  const ok = judged.problem === null;
  return element("section", { class: "card padded" }, element("h2", {}, `Update ${trace.version}`),
    figures([
      ["Episodes", trace.episodes.id.length], ["Turns", trace.turns.phase.length],
      ["Trained tokens", sumOf(trace.turns.trained)],
      ["Groups", ok ? judged.groups.length : null],
      ["Mean return", ok ? meanOf(judged.returns) : null],
      ["Samples with advantage 0", ok ? percent(judged.advantages.filter((value) => value === 0).length /
        judged.advantages.length) : null],
      ["Turns with tokens", trace.tokens.length],
    ]), episodePicker(context));
}

const hasTokens = (trace, episode) => turnsOfEpisode(trace, episode).some((turn) => trace.recorded.has(turn));

// Episodes to choose from, best first; a point marks those whose tokens were recorded.
function episodePicker({ trace, judged, choice, choose, run }) {
  if (judged.problem !== null) return null;
  const order = [...trace.episodes.id.keys()].sort((left, right) =>
    trace.episodes.reward[right] - trace.episodes.reward[left]);
  const options = [{ value: "", label: "choose an episode" }, ...order.map((episode) => ({
    value: String(episode), label: `${episodeName(run, trace, episode)}: ${formatNumber(trace.episodes.reward[episode])}${
      hasTokens(trace, episode) ? " \u2022" : ""}`,
  }))];
  const value = choice.episode === null ? "" : String(choice.episode);
  return dropdown("Episode", options, value, (text) => choose({ episode: text === "" ? null : Number(text) }), {
    hint: "by reward; \u2022: tokens of some turns were recorded" });
}

function episodeCard(context) {
  const { trace, choice, run, judged } = context;
  const { episode } = choice;
  const { episodes } = trace;
  const facts = Object.entries(episodes.facts).map(([name, values]) => [name, String(values[episode] ?? "\u2013")]);
  const outcome = Object.entries(episodes.outcome).map(([name, values]) => [name.replaceAll("_", " "), values[episode]]);
  const parts = Object.entries(episodes.parts).map(([name, values]) => [name.replaceAll("_", " "), values[episode]]);
  return element("section", { class: "card padded", id: "episode-card" },
    element("h2", {}, `Episode ${episodeName(run, trace, episode)}`),
    figures([["Reward", episodes.reward[episode]], ["Opponents", episodes.opponents?.[episode]],
      ...(judged.problem === null && !judged.samplesAreTurns ? sampleFigures(context, episode) : [])]),
    moreFigures("Known before", facts), moreFigures("Parts of the reward", parts), moreFigures("Outcome", outcome),
    turnStrip(context));
}

function moreFigures(title, pairs) {
  if (pairs.length === 0) return null;
  const shown = pairs.map(([name, value]) => [name, typeof value === "number" ? axisNumber(value) : value]); // years
  return element("details", { "data-key": title }, element("summary", {}, title), figures(shown));
}

function sampleFigures({ judged }, sample) {
  return [["Group", judged.names[judged.groupOfSample[sample]]], ["Return", judged.returns[sample]],
    ["Baseline", judged.baselineOfSample[sample]], ["Advantage", judged.advantages[sample]]];
}

// The episode's turns as buttons, coloured by their advantage.
function turnStrip({ trace, choice, choose, judged }) {
  const turns = turnsOfEpisode(trace, choice.episode);
  const largest = judged.problem === null ? highestOf(judged.advantages.map(Math.abs)) || 1 : 1;
  const shown = turns.slice(0, 400);
  const buttons = shown.map((turn) => {
    const advantage = judged.problem === null ? judged.advantages[judged.sample_of_turn[turn]] : 0;
    const label = `${turnName(trace, turn)}: advantage ${signed(advantage)}${trace.recorded.has(turn) ? ", with tokens" : ""}`;
    const press = button("", () => choose({ turn, view: "formulas" }), {
      class: "turn", title: label, "aria-label": label, "data-key": `turn/${turn}`,
      "aria-pressed": choice.turn === turn ? "true" : "false",
    });
    press.style.background = advantageColor(advantage / largest);
    press.append(element("span", { "aria-hidden": "true" }, trace.recorded.has(turn) ? "\u2022" : ""));
    return press;
  });
  const note = "Colour: advantage; a point: its tokens were recorded.";
  return element("div", {}, element("h3", {}, `Turns (${turns.length})`), element("div", { class: "turns" }, ...buttons),
    element("p", { class: "soft small" }, turns.length > shown.length ? `${note} The first ${shown.length} are here.` : note));
}

function turnCard(context) {
  const { trace, choice, judged } = context;
  const { turn } = choice;
  const { turns } = trace;
  const facts = Object.entries(turns.facts).map(([name, values]) => [name.replaceAll("_", " "), String(values[turn] ??
    "\u2013")]);
  const defects = turns.defects[turn];
  return element("section", { class: "card padded", id: "turn-card" },
    element("h2", {}, `Turn ${turnName(trace, turn)}`),
    figures([
      ["Reward until the next decision", turns.reward[turn]], ["Phases until then", turns.elapsed[turn]],
      ["Sampled by version", turns.version[turn]], ["Tokens written / trained",
        `${formatNumber(turns.written[turn])} / ${formatNumber(turns.trained[turn])}`],
      ["Defects", defects ? defects.join(", ") : null],
      ...(judged.problem === null ? sampleFigures(context, judged.sample_of_turn[turn]) : []),
    ]), moreFigures("Known before", facts), choice.view === "formulas" && judged.problem === null ? null : tokenText(context));
}

// The words of a turn; trained ones are buttons, coloured by their slope.
function tokenText(context) {
  const { trace, choice, choose, rows } = context;
  const recorded = trace.recorded.get(choice.turn);
  if (!recorded) {
    return element("p", { class: "soft" }, `The tokens of this turn ${withoutTokens(trace)}. `, toTokens(context));
  }
  const trainedAt = new Map(recorded.trained.map((place, token) => [place, token]));
  const slopes = recorded.trained.map((_, token) => slopeOf(rows, choice.turn, token));
  const largest = highestOf(slopes.map((slope) => Math.abs(slope ?? 0))) || 1;
  const words = recorded.words.map((word, place) => {
    const token = trainedAt.get(place);
    if (token === undefined) return element("span", { class: "word forced", title: "forced: no choice" }, word);
    const label = tokenLabel(recorded, rows, choice.turn, token, word);
    const press = button("", () => chooseToken(context, token), {
      class: "word", title: label, "aria-label": label, "data-key": `token/${token}`,
      "aria-pressed": choice.token === token ? "true" : "false",
    });
    press.style.setProperty("--shade", advantageColor(slopes[token] === null ? 0 : -slopes[token] / largest));
    const row = rows?.byPlace.get(`${choice.turn}/${token}`);
    if (row !== undefined && rows.losses[row].clipped) press.classList.add("clipped");
    press.append(word);
    return press;
  });
  const passes = recorded.passes.length;
  const passControl = passes > 1 ? dropdown("Pass", recorded.passes.map((each, place) => ({
    value: String(place), label: `optimizer step ${each.step + 1}`,
  })), String(Math.min(choice.pass, passes - 1)), (pass) => choose({ pass: Number(pass) })) : null;
  return element("div", {}, element("h3", {}, "What it wrote"), passControl,
    passes === 0 ? notice(withoutPass(context, choice.turn)) : null,
    element("p", { class: "words" }, ...words),
    element("p", { class: "soft small" }, "Press a word, and the steps show its numbers. Words with a blue line are made more " +
      "likely, with an orange line less; a struck one was clipped. Grey words were forced."),
    element("details", { "data-key": "prompt" }, element("summary", {}, "What it had read"),
      element("pre", { class: "prompt" }, recorded.prompt_text)));
}

// Go to a token's steps, which stand below its words.
function chooseToken({ memory, choose }, token) {
  memory.target = "#written";
  choose({ token, view: "formulas" });
}

const withoutTokens = ({ tokens_left_out: leftOut }) => (leftOut > 0 ? "were not recorded, or had no room on this page" :
  "were not recorded");

// A way to a turn whose tokens were recorded: of this episode, or of another one.
function toTokens({ trace, choice, choose }) {
  const withPass = trace.tokens.filter((each) => each.passes.length > 0);
  const near = withPass.find((each) => trace.episodeOfTurn[each.turn] === choice.episode) ?? withPass[0];
  if (near === undefined) return "This update has none.";
  const here = trace.episodeOfTurn[near.turn] === choice.episode;
  return button(here ? "Go to a turn of this episode that has them" : "Go to an episode that has them", () => choose({
    episode: trace.episodeOfTurn[near.turn], turn: near.turn, token: 0, view: "formulas" }));
}

function slopeOf(rows, turn, token) {
  const row = rows?.byPlace.get(`${turn}/${token}`);
  return row === undefined ? null : rows.losses[row].slope * rows.weights[row];
}

function tokenLabel(recorded, rows, turn, token, word) {
  const probability = percent(Math.exp(recorded.behaviour[token]));
  const row = rows?.byPlace.get(`${turn}/${token}`);
  const clipped = row !== undefined && rows.losses[row].clipped ? ", clipped" : "";
  return `${word}: sampled with ${probability}${clipped}`;
}
