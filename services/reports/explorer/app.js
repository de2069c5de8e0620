"use strict";
// Draws the page from what is chosen, and again whenever that changes.
const VIEWS = [
  { id: "start", title: "Start", about: "Questions, and what is here.", draw: startView },
  { id: "groups", title: "Groups", about: "How groups form, what they are made of, and how well they predict returns.",
    draw: groupsView, needsTrace: true },
  { id: "advantages", title: "Advantages", about: "Returns before and after grouping; two strategies on the same batch.",
    draw: advantagesView, needsTrace: true },
  { id: "course", title: "Course", about: "The run over its updates: roles, weights, balance, health.", draw: courseView },
  { id: "formulas", title: "Formulas", about: "Each advantage and loss step by step, with its own numbers.", draw:
    formulasView, needsTrace: true },
  { id: "pitfalls", title: "Pitfalls", about: "Six common mistakes as small experiments.", draw: pitfallsView },
  { id: "comparison", title: "Comparison", about: "Methods compared on several tasks, and their sensitivity.", draw:
    comparisonView, needsPages: true },
];

const pageData = JSON.parse(document.getElementById("data").textContent);
const runs = pageData.runs.map((run, index) => ({ ...run, index }));
const pageMemory = {}; // what outlives a drawing: fields of dots, open details, the tour
let choice = readChoice(location.hash);
let drawing = 0; // the newest drawing; an older one that waited for its update is given up

function choose(changes) {
  choice = changedChoice(choice, changes);
  const address = addressOf(choice);
  if (address !== location.hash) history.pushState(null, "", address);
  return redraw();
}

// Go to the answer of a question, as the run made the update, and bring it into view.
function answerQuestion({ answer, at }, context) {
  pageMemory.target = at;
  return choose({ ...AS_TRAINED, compare: false, ...answer(context) });
}

addEventListener("popstate", () => {
  choice = readChoice(location.hash);
  pageMemory.tour = null; // its steps are not the browser's
  redraw();
});

async function redraw() {
  drawing += 1;
  const number = drawing;
  try {
    await drawChoice(number);
  } catch (error) {
    if (number !== drawing) return;
    const help = typeof DecompressionStream === "undefined" ? "Open the page in a newer browser."
      : "Choose another update or strategy, or write the page again with entente explore.";
    document.getElementById("view").replaceChildren(notice(`This update cannot be shown: ${error.message}. ${help}`, "warning"));
    document.getElementById("inspector").hidden = true; // it may be of another update
    document.body.dataset.drawn = String(drawing);
  }
}

async function drawChoice(number) {
  const run = runs[Math.min(choice.run, runs.length - 1)];
  const version = nearestVersion(run, choice.update);
  const trace = version === null ? null : await traceOf(run, version);
  if (number !== drawing) return;
  const checked = trace === null ? choice : insideTrace(choice, trace);
  const judged = trace === null ? { problem: "No update was recorded in detail." } : judgedBy(checked.strategy, checked,
    run, trace);
  const context = {
    choice: checked, choose, redraw, run, runs, trace, judged, pages: pageData.pages, memory: pageMemory, afterwards: [],
    trained: trace === null ? judged : judgedBy("trained", FIRST_CHOICE, run, trace),
    other: trace === null || !checked.compare ? null : judgedBy(checked.other, checked, run, trace),
    rows: trace === null || judged.problem !== null ? null : tokenRows(trace, judged, judged.settings.learner, checked),
  };
  show(context);
}

// The choice without places that this update does not have, such as after a step to another update.
function insideTrace(given, trace) {
  const kept = { ...given };
  if (kept.turn !== null && kept.turn >= trace.turns.phase.length) Object.assign(kept, { turn: null, token: null });
  if (kept.turn !== null) kept.episode = trace.episodeOfTurn[kept.turn];
  if (kept.episode !== null && kept.episode >= trace.episodes.id.length) Object.assign(kept, { episode: null });
  const recorded = trace.recorded.get(kept.turn);
  if (!recorded || kept.token >= recorded.trained.length) kept.token = null;
  for (const [name, own] of Object.entries(ownSettings(trace))) if (kept[name] === own) kept[name] = null; // no what-if
  if (kept.role !== "all" && !trace.episodes.role.includes(kept.role)) kept.role = null;
  return kept;
}

// What an update was made with, by the names of choices.
const ownSettings = ({ learner, grouping }) => ({
  returns: learner.returns, loss: learner.loss_type, normalizer: learner.normalizer, baseline: grouping.baseline,
  scale: grouping.scale_rewards, shrinkage: grouping.shrinkage, weights: grouping.group_weights,
});

function show(context) {
  const view = viewsOf(context).find(({ id }) => id === context.choice.view) ?? VIEWS[0];
  const active = document.activeElement;
  const focused = focusPlace(active);
  rememberOpen();
  const head = document.getElementById("head");
  const chooser = runChooser(context);
  const line = whatIfLine(context);
  const elsewhere = nearestLine(context);
  head.replaceChildren(pathBar(context), ...(chooser ? [chooser] : []), ...(context.trace ? [updateSlider(context)] : []),
    ...(elsewhere ? [elsewhere] : []), tabList(context, view), ...(line ? [line] : []));
  const body = view.needsTrace && !context.trace ? [notice("This run has no update in detail: its folder has no traces/. " +
    "The course below is what its records say.", "warning"), ...courseView(context)] : view.draw(context);
  const panel = document.getElementById("view");
  panel.setAttribute("aria-labelledby", `tab-${view.id}`);
  panel.replaceChildren(...body);
  const inspected = document.getElementById("inspector");
  const shown = ["groups", "advantages", "formulas"].includes(view.id);
  inspected.hidden = !shown;
  inspected.replaceChildren(...(shown ? inspector(context) : []));
  document.getElementById("shell").classList.toggle("wide", !shown);
  document.getElementById("shell").dataset.view = view.id;
  const tour = tourBox(context);
  document.getElementById("tour").replaceChildren(...(tour ? [tour] : []));
  restoreOpen();
  document.getElementById(`tab-${view.id}`).scrollIntoView({ block: "nearest", inline: "nearest" });
  for (const act of context.afterwards) act();
  refocus(active, focused);
  focusTour(context, focused);
  showTourTarget(context);
  if (document.body.dataset.drawn === undefined) performance.mark("first-drawing");
  document.body.dataset.drawn = String(drawing);
}

// A view that one goes to by itself begins at its top, and the tour is over.
function openTab(id) {
  pageMemory.tour = null;
  pageMemory.wasInTour = false; // the focus stays on the tab
  scrollTo(0, 0);
  return choose({ view: id });
}

const viewsOf = ({ pages }) => VIEWS.filter(({ needsPages }) => !needsPages || Object.keys(pages).length > 0);

function tabList(context, view) {
  const tabs = viewsOf(context).map(({ id, title }) =>
    button(title, () => openTab(id), {
      role: "tab", id: `tab-${id}`, "aria-selected": String(id === view.id), "aria-controls": "view",
      tabindex: id === view.id ? 0 : -1, "data-key": `tab/${id}`,
    }));
  const list = element("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, ...tabs);
  list.addEventListener("keydown", (event) => {
    const at = tabs.findIndex((tab) => tab.tabIndex === 0);
    const place = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (place === undefined) return;
    event.preventDefault();
    const next = tabs[place % tabs.length];
    next.focus();
    next.click();
  });
  return list;
}

// Details that were open stay open, and what had the focus keeps it.
function rememberOpen() {
  for (const details of document.querySelectorAll("details[data-key]")) {
    pageMemory[`open/${details.dataset.key}`] = details.open;
  }
}

function restoreOpen() {
  for (const details of document.querySelectorAll("details[data-key]")) {
    const open = pageMemory[`open/${details.dataset.key}`];
    if (open !== undefined) details.open = open || details.open;
  }
}

const withKey = (key) => [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)];

// What has the focus, by its key and which of those with that key it is; null for what has none.
function focusPlace(active) {
  const key = active?.dataset?.key;
  return key === undefined ? null : { key, place: withKey(key).indexOf(active) };
}

function refocus(active, focused) {
  if (active?.isConnected && active !== document.body) active.focus({ preventScroll: true });
  else if (focused !== null) focusAgain(focused, 4);
  else if (active !== null && active !== document.body) focusView();
}

// What had the focus is gone, so that it goes on from the view or, where a step to the next update is off, from the slider.
function focusView(key = null) {
  const steps = ["Update before", "Next update"].includes(key) ? document.querySelector(".update-slider input") : null;
  (steps ?? document.getElementById("view")).focus({ preventScroll: true });
}

// Charts are drawn a few frames after the page, when their width is known.
function focusAgain(focused, frames) {
  const found = withKey(focused.key)[focused.place];
  if (found && !found.disabled) found.focus({ preventScroll: true });
  else if (found || frames === 0) {
    const isTours = focused.key.startsWith("tour-"); // which has its own rules
    if (document.activeElement === document.body && !isTours) focusView(focused.key);
  } else requestAnimationFrame(() => focusAgain(focused, frames - 1));
}

function comparisonView({ pages }) {
  return Object.entries(pages).map(([title, html]) => {
    const place = element("section", { class: "compared" }, element("h2", {}, title));
    const body = element("template", {});
    body.innerHTML = html; // made by this package, with every text escaped
    place.append(body.content);
    return place;
  });
}

// The address keeps what is chosen, so the link may not put its own target there.
document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("view").focus();
});
document.getElementById("title").textContent = pageData.title;
document.getElementById("start-tour").addEventListener("click", () => {
  pageMemory.tour = 0;
  pageMemory.beforeTour = choice;
  choose(TOUR[0].changes);
});
redraw();
