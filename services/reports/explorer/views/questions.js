"use strict";
// Questions that newcomers have; each leads to its answer on this run's own numbers.

const QUESTIONS = [
  {
    text: "Why did this good game get a negative advantage?", at: "#verdict",
    answer: ({ trained, trace }) => {
      const sample = surprisingSample(trained, trace);
      if (sample === null) return { view: "formulas", episode: null };
      const { episode, turn } = trained.samples[sample];
      return { view: "formulas", group: trained.names[trained.groupOfSample[sample]], episode, turn };
    },
  },
  {
    text: "What would per-phase groups have changed?", at: "#comparison",
    answer: ({ trace, run }) => ({
      view: "advantages", compare: true, group: null, other: otherThanTrained(trace, run),
    }),
  },
  { text: "Which role carried this update?", at: "#carried", answer: () => ({ view: "course" }) },
  {
    text: "What did clipping remove?", at: "#clipping",
    answer: (context) => ({ view: "formulas", ...clippedSelection(context) }),
  },
  {
    text: "Is this group too small?", at: "#group-details",
    answer: ({ trained }) => ({ view: "groups", episode: null, formed: true, group: trained.names[smallestGroup(trained)] }),
  },
];

const hadPhases = (trace) => trace.grouping.keys.some((key) => key.split("+").includes("phase"));

// Groups by phase or, where the update had them already, its keys without them; where there are no phases the groups by
// role, or one mean where it had those.
function otherThanTrained(trace, run) {
  if (hadPhases(trace)) return "unphased";
  return strategyProblem(strategyOf("phase"), trace, trace.learner) === null ? "phase" :
    trace.grouping.keys[0] === run.role_name ? "none" : "role";
}

// A question in the words of this world.
function questionText(text, { run, trace }) {
  if (text.includes("per-phase") && trace && !knowsFact(run, trace, "phase")) {
    const other = otherThanTrained(trace, run);
    return `What would ${other === "none" ? "one mean for all" : `groups by ${run.role_name} alone`} have changed?`;
  }
  const word = !trace || knowsFact(run, trace, "lineup") ? "game" : "episode";
  return text.replace("role", run.role_name).replace("game", word);
}

const CLEARLY_BELOW = -0.25; // deviations of the advantages

// The sample with a negative advantage whose return beats most of the update; null without any. One whose tokens were
// recorded comes first if it is among the better half, so that the derivation goes on to a token, and of these one that
// is clearly below its group.
function surprisingSample(judged, trace) {
  const negative = [...judged.samples.keys()].filter((sample) => judged.advantages[sample] < 0);
  if (negative.length === 0) return null;
  const sorted = [...judged.returns].sort((left, right) => left - right);
  const median = sorted[Math.floor(sorted.length / 2)];
  const hasTokens = (sample) => judged.samplesAreTurns && trace.recorded.get(sample)?.passes.length > 0;
  const shown = negative.filter((sample) => hasTokens(sample) && judged.returns[sample] > median);
  const deviation = Math.sqrt(varianceOf(judged.advantages));
  const clear = shown.filter((sample) => judged.advantages[sample] <= CLEARLY_BELOW * deviation);
  const candidates = [clear, shown, negative].find(({ length }) => length > 0);
  return candidates.reduce((best, sample) =>
    (judged.returns[sample] > judged.returns[best] ? sample : best));
}

// The clipped token with the largest pull; nothing where none was clipped.
function clippedSelection({ trained, trace }) {
  const clipped = everyPass(trace, trained, trained.settings.learner, FIRST_CHOICE).flatMap((rows, pass) =>
    tokensBesideUnclipped(rows, pass)).filter(({ bound }) => bound !== null);
  if (clipped.length === 0) return {};
  const { turn, token, pass } = clipped.reduce((best, each) => (Math.abs(each.whole) > Math.abs(best.whole) ? each : best));
  return { episode: trace.episodeOfTurn[turn], turn, token, pass };
}

// The index of the group with the fewest episodes.
function smallestGroup(judged) {
  const sizes = judged.groups.map((group) => episodesOf(judged, group));
  return sizes.indexOf(lowestOf(sizes));
}

function questionList(context) {
  const cannot = !context.trace || context.trained.problem !== null;
  const items = QUESTIONS.map((question) => element("li", {}, button(questionText(question.text, context), () =>
    answerQuestion(question, context), { class: "question", disabled: cannot ? "" : null })));
  const why = !context.trace ? "The questions need an update in detail, and this run's folder has no traces/: see " +
    "metrics.traced_tokens. “Course” shows what its records say." : context.trained.problem;
  return element("div", {}, ...(cannot ? [notice(why, "warning")] : []), element("ol", { class: "questions" }, ...items));
}

// What the run is, in a sentence.
function runSentence({ run, trace }) {
  const world = run.about.world ? `, which plays ${run.about.world}` : "";
  const update = trace ? ` Its update ${trace.version} is shown: ${counted(trace.episodes.id.length, "episode")}, grouped by ${
    trace.grouping.keys[0]}${coarserKeys(trace)}, with the loss ${trace.learner.loss_type}.` : "";
  return element("p", { class: "lead" }, `This is the run “${run.name}”${world}.${update}`);
}

function coarserKeys({ grouping: { keys } }) {
  return keys.length > 1 ? ` (a group that is too small falls back to ${keys.slice(1).join(", then to ")})` : "";
}

function startView(context) {
  const { run, runs, choose, pages } = context;
  const about = run.about;
  const parts = [
    element("p", { class: "lead" }, "This page shows what training learned from: which episodes were compared with which, " +
      "what that made of their rewards, and what it did to each token. Everything is computed again in your browser, so " +
      "you can change the grouping and see what the same update would have been."),
    runSentence(context),
    section("Ask this run", questionList(context)),
    section("Look around", element("div", { class: "doors" }, ...viewsOf(context).filter(({ id }) => id !== "start").map(
      ({ id, title, about: text }) => element("div", { class: "card padded" },
        button(title, () => openTab(id), { class: "door" }), element("p", { class: "soft" }, text))))),
    glossary(context),
    section("The run", figures([["World", about.world],["Name", run.name], ["Commit", about.commit], ["Updates", about.updates],
      ["Games", about.games], ["Episodes", about.episodes], ["Updates in detail", Object.keys(run.traces).length]])),
  ];
  if (runs.length > 1) {
    parts.push(section("Other runs on this page", dataTable(["Run", "Updates in detail"], runs.map((each) => ({
      cells: [each.name, Object.keys(each.traces).length], onPress: () => choose({ run: each.index }),
      selected: each.index === run.index })), { caption: "Runs" })));
  }
  if (pageData.runs_left_out > 0) {
    parts.push(notice(`${counted(pageData.runs_left_out, "more run")} of this comparison had no room on this page.`));
  }
  if (Object.keys(pages).length > 0) parts.push(notice("The comparison of methods is under “Comparison”."));
  return parts;
}
