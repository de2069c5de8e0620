"use strict";
// Questions that newcomers have; each leads to its answer on this run's own numbers.

const QUESTIONS = [
  {
    text: "Why did this good game get a negative advantage?",
    answer: (context) => {
      const sample = surprisingSample(context);
      if (sample === null) return { view: "formulas", episode: null };
      const { episode, turn } = context.judged.samples[sample];
      return { view: "formulas", group: context.judged.names[context.judged.groupOfSample[sample]], episode, turn };
    },
  },
  {
    text: "What would per-phase groups have changed?",
    answer: ({ trace, run }) => ({
      view: "advantages", strategy: "trained", compare: true, group: null, other: otherThanTrained(trace, run),
    }),
  },
  { text: "Which role carried this update?", answer: () => ({ view: "course" }) },
  { text: "What did clipping remove?", answer: (context) => ({ view: "formulas", ...clippedSelection(context) }) },
  {
    text: "Is this group too small?",
    answer: ({ judged }) => ({ view: "groups", episode: null, formed: true, group: smallestGroup(judged) }),
  },
];

// Groups by phase or, where the update had them already or cannot have them, by role.
function otherThanTrained(trace, run) {
  const hadPhases = trace.grouping.keys[0] === `${run.role_name}+phase`;
  return !hadPhases && strategyProblem(strategyOf("phase"), trace, trace.learner) === null ? "phase" : "role";
}

const questionText = (text, run) => text.replace("role", run.role_name);

// The sample with a negative advantage whose return beats most of the update; null without any.
function surprisingSample({ judged }) {
  const negative = [...judged.samples.keys()].filter((sample) => judged.advantages[sample] < 0);
  if (negative.length === 0) return null;
  return negative.reduce((best, sample) => (judged.returns[sample] > judged.returns[best] ? sample : best));
}

// The clipped token with the largest pull, among all passes; nothing where none was clipped.
function clippedSelection({ rows, trace }) {
  const clipped = [...rows.places.keys()].filter((row) => rows.losses[row].clipped !== null);
  if (clipped.length === 0) return {};
  const pull = (row) => Math.abs(rows.weights[row] * rows.tokens.advantages[row]);
  const { turn, token } = rows.places[clipped.reduce((best, row) => (pull(row) > pull(best) ? row : best))];
  return { episode: trace.episodeOfTurn[turn], turn, token };
}

function smallestGroup(judged) {
  const sizes = judged.groups.map((group) => episodesOf(judged, group));
  const smallest = sizes.indexOf(lowestOf(sizes));
  return judged.names[smallest] ?? null;
}

function questionList(context) {
  const items = QUESTIONS.map(({ text, answer }) => {
    const shown = questionText(text, context.run);
    const disabled = context.judged?.problem !== null && context.judged?.problem !== undefined;
    return element("li", {}, button(shown, () => context.choose(answer(context)), {
      class: "question", disabled: disabled || !context.trace ? "" : null,
    }));
  });
  return element("ol", { class: "questions" }, ...items);
}

function startView(context) {
  const { run, runs, choose, pages } = context;
  const about = run.about;
  const parts = [
    element("p", { class: "lead" }, "This page shows what training learned from: which episodes were compared with which, " +
      "what that made of their rewards, and what it did to each token. Everything is computed again in your browser, so " +
      "you can change the grouping and see what the same update would have been."),
    section("Ask this run", questionList(context)),
    section("Look around", element("div", { class: "doors" }, ...VIEWS.filter(({ id, needsPages }) => id !== "start" &&
      (!needsPages || Object.keys(pages).length > 0)).map(
      ({ id, title, about: text }) => element("div", { class: "card padded" },
        button(title, () => choose({ view: id }), { class: "door" }), element("p", { class: "soft" }, text))))),
    section("The run", figures([["Name", run.name], ["Commit", about.commit], ["Updates", about.updates],
      ["Games", about.games], ["Episodes", about.episodes], ["Updates in detail", Object.keys(run.traces).length]])),
  ];
  if (runs.length > 1) {
    parts.push(section("Other runs on this page", dataTable(["Run", "Updates in detail"], runs.map((each) => ({
      cells: [each.name, Object.keys(each.traces).length], onPress: () => choose({ run: each.index }),
      selected: each.index === run.index })), { caption: "Runs" })));
  }
  if (Object.keys(pages).length > 0) parts.push(notice("The comparison of methods is under “Comparison”."));
  return parts;
}
