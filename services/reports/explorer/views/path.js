"use strict";
// Where one is: run, update, group, episode, turn and token, each a way back.

function pathBar(context) {
  const { choice, choose, run, trace } = context;
  const steps = [pathStep("Run", run.name, () => choose({ update: null, view: "course" }))];
  if (trace) steps.push(pathStep("Update", String(trace.version), () => choose({ group: null, episode: null })));
  const group = groupOfChoice(context);
  if (group !== null) steps.push(pathStep("Group", group, () => choose({ group, episode: null, view: "groups" })));
  if (trace && choice.episode !== null) {
    steps.push(pathStep("Episode", episodeName(run, trace, choice.episode), () => choose({ turn: null })));
  }
  if (trace && choice.turn !== null) {
    steps.push(pathStep("Turn", turnName(trace, choice.turn), () => choose({ token: null })));
  }
  if (trace && choice.turn !== null && choice.token !== null) {
    steps.push(pathStep("Token", tokenWord(trace, choice.turn, choice.token), () => {}));
  }
  steps[steps.length - 1].querySelector("button").setAttribute("aria-current", "location");
  return element("nav", { class: "path", "aria-label": "Selection" }, element("ol", {}, ...steps));
}

// The chosen group or that of the chosen sample; null without one.
function groupOfChoice({ choice, trace, judged }) {
  if (judged.problem !== null) return null;
  if (judged.byName.has(choice.group)) return choice.group;
  if (choice.episode === null || (judged.samplesAreTurns && choice.turn === null)) return null;
  return judged.names[judged.groupOfSample[sampleFor(judged, trace, choice.episode, choice.turn)]];
}

function pathStep(kind, name, onPress) {
  const press = button("", onPress, { class: "path-step", "data-key": `path/${kind}` });
  press.append(element("span", { class: "soft" }, `${kind} `), name);
  return element("li", {}, press);
}

const episodeName = (run, trace, episode) =>
  `${roleOf(run, trace.episodes.role[episode]).label} ${trace.episodes.id[episode]}`;

function turnName(trace, turn) {
  const place = turn - trace.firstTurn[trace.episodeOfTurn[turn]] + 1;
  const act = trace.turns.facts.act?.[turn];
  const phase = trace.turns.phase[turn] || `step ${place}`;
  return act ? `${phase}, ${act}` : phase;
}

// The word of a trained token.
function tokenWord(trace, turn, token) {
  const recorded = trace.recorded.get(turn);
  return recorded?.words[recorded.trained[token]] ?? `token ${token + 1}`;
}

// Which run of the page; null where there is but one.
function runChooser({ runs, run, choose }) {
  if (runs.length < 2) return null;
  const options = runs.map(({ index, name }) => ({ value: String(index), label: name }));
  return dropdown("Run", options, String(run.index), (index) => choose({ run: Number(index) }), { key: "run-chooser" });
}

function leftOutHint({ left_out: leftOut, damaged = [] }) {
  const hints = [];
  if (leftOut > 0) hints.push(`${formatNumber(leftOut)} more updates had no room on this page`);
  if (damaged.length > 0) hints.push(`damaged and left out: ${damaged.join(", ")}`);
  return hints.length > 0 ? hints.join("; ") : null;
}

// A line that says when another update is shown than the one that was asked for; null otherwise.
function nearestLine({ choice, trace }) {
  if (!trace || choice.update === null || choice.update === trace.version) return null;
  return element("p", { class: "soft", role: "status" },
    `Update ${choice.update} is not on this page in detail; this is the nearest one that is, ${trace.version}.`);
}

// The control by which one goes from update to update.
function updateSlider({ choice, choose, run, trace }) {
  const versions = detailedVersions(run);
  if (versions.length === 0) return element("p", { class: "soft" }, "No update was recorded in detail.");
  const at = versions.indexOf(trace?.version ?? nearestVersion(run, choice.update));
  const go = (step) => choose({ update: versions[Math.min(Math.max(at + step, 0), versions.length - 1)] });
  const control = slider("Update", versions, versions[at], (version) => choose({ update: version }), {
    hint: leftOutHint(run),
  });
  control.classList.add("update-slider");
  const back = button("\u2190", () => go(-1), { "aria-label": "Update before", disabled: at <= 0 ? "" : null });
  const on = button("\u2192", () => go(1), {
    "aria-label": "Next update", disabled: at >= versions.length - 1 ? "" : null,
  });
  return element("div", { class: "update-row" }, back, control, on);
}
