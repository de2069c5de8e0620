"use strict";
// A guided tour for those who know PPO and not groups.

const TOUR = [
  {
    title: "You know PPO; what is new?", changes: { view: "start" }, at: ".lead",
    text: "PPO asks a critic how good a position was. GRPO has no critic: it plays the same thing several times and asks " +
      "how much better an episode did than its group. So everything depends on which episodes are compared. This page " +
      "shows exactly that.",
  },
  {
    title: "Where you are", changes: { view: "groups", formed: false, strategy: "trained" }, at: ".path",
    text: "A run has updates, an update has groups of samples (episodes or their turns), a turn has tokens. This " +
      "line says where you are; press any part to go back. The address keeps it, so you can send a link.",
  },
  {
    title: "Episodes before grouping", changes: { view: "groups", formed: false, role: "all" }, at: ".formation",
    text: "Every dot is a sample of this update: an episode or one of its turns. Up is a higher return. On its own, that " +
      "tells little: some roles and phases simply earn more.",
  },
  {
    title: "Groups form", changes: { view: "groups", formed: true, role: null }, at: ".formation",
    text: "Now each dot stands in its group, and the line is the group's mean: its baseline. Blue dots did better than " +
      "their group and are made more likely; orange ones less.",
  },
  {
    title: "Try another strategy", changes: { view: "groups", formed: true, strategy: "role" }, at: ".control-card",
    text: "One group for each role is the coarsest grouping that is fair. The tour chose it: these columns are its groups. " +
      "The run itself stays as it was; you only see what this update would have been.",
  },
  {
    title: "What groups leave", changes: { view: "advantages", strategy: "trained" }, at: ".two",
    text: "Left: returns and the advantages made of them. Right: one global mean against groups. Groups take out what the " +
      "position gave, and keep what was done in it. The scatter further down shows which good returns became negative.",
  },
  {
    title: "From an episode to a token", changes: (context) => ({ ...AS_TRAINED, ...QUESTIONS[0].answer(context) }),
    at: "#verdict",
    text: "A good return with a negative advantage, if there is one: its group did better still. Each step below has its " +
      "formula and its own numbers.",
  },
  {
    title: "The course of the run", changes: { view: "course" }, at: ".carried",
    text: "How each role did over the updates, which one carried this update, and whether the run was healthy. Press a " +
      "point of a line to open that update.",
  },
  {
    title: "Six mistakes to play with", changes: { view: "pitfalls" }, at: ".experiment",
    text: "The usual pitfalls as small experiments. That is the tour; the questions on the first page lead to answers on " +
      "this run's own numbers.",
  },
];

// The box of the tour; null while there is none.
function tourBox(context) {
  const { memory, choose } = context;
  if (memory.tour === undefined || memory.tour === null) return null;
  const place = memory.tour;
  const { title, text } = TOUR[place];
  const go = (next) => {
    memory.tour = next;
    if (next === null) choose(memory.beforeTour ?? { ...AS_TRAINED, view: "start" });
    else {
      const { changes } = TOUR[next];
      memory.tourMoved = true;
      choose(typeof changes === "function" ? changes(context) : changes);
    }
  };
  const last = place === TOUR.length - 1;
  const box = element("aside", { class: "tour card", role: "dialog", "aria-label": `Tour, step ${place + 1} of ${TOUR.length}`,
    tabindex: -1 }, element("h2", {}, title), element("p", {}, text),
    element("div", { class: "tour-buttons" }, element("span", { class: "soft" }, `${place + 1} of ${TOUR.length}`),
      button("Back", () => go(place - 1), { disabled: place === 0 ? "" : null, "data-key": "tour-back" }),
      button(last ? "Done" : "Next", () => go(last ? null : place + 1), { class: "primary", "data-key": "tour-next" }),
      button("Leave", () => go(null), { "data-key": "tour-leave" })));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") go(null);
  });
  return box;
}

// The focus goes into the tour when it begins, so that keys and screen readers find it, and back when it ends.
function focusTour({ memory }, focused) {
  const inTour = memory.tour !== undefined && memory.tour !== null;
  const begins = inTour && !memory.wasInTour;
  const ends = !inTour && memory.wasInTour;
  memory.wasInTour = inTour;
  if (begins) document.querySelector("#tour .tour").focus({ preventScroll: true });
  else if (ends) document.getElementById("start-tour").focus();
  else if (inTour && focused?.key === "tour-back" && document.activeElement === document.body) {
    document.querySelector('[data-key="tour-next"]').focus({ preventScroll: true }); // "Back" is off at the first step
  }
}

// Marks what the tour's step is about, and brings it into view.
function showTourTarget({ memory }) {
  for (const marked of document.querySelectorAll(".tour-target")) marked.classList.remove("tour-target");
  const inTour = memory.tour !== undefined && memory.tour !== null;
  const selector = inTour ? TOUR[memory.tour].at : memory.target;
  if (!selector) return;
  const target = document.querySelector(selector);
  target?.classList.add("tour-target");
  if (memory.tourMoved || !inTour) target?.scrollIntoView({ block: "start", behavior: reducedMotion() ? "auto" : "smooth" });
  memory.tourMoved = false;
  memory.target = null; // an answer is marked once
}
