// The page: what it shows, and what its controls do.
import { Board, renew, titled } from "./board.js";
import { Orders } from "./orders.js";
import { Hints, Players, element, failed, showOrders } from "./panels.js";
import { listen, read, send, sendText } from "./server.js";
import { Setup } from "./setup.js";

const byId = (id) => document.getElementById(id);
const SEASONS = { S: "Spring", F: "Fall", W: "Winter" };
const KINDS = { M: "Movement", R: "Retreats", A: "Builds and disbands" };
let session = null;
let wanted = null; // the number of the line that is to be shown; answers about others come too late
let line = null; // as the server told it last; `past` has all its phases
let at = null; // the past phase that is looked at; null: the present one
let playing = false; // whether a game that is watched goes on by itself
let timer = null; // of its next phase
let board, orders, players, hints, setup;

const title = (name) => (name === "COMPLETED" ? "The end" : `${SEASONS[name[0]]} ${name.slice(1, 5)}`);

function complain(text) {
  byId("alert").hidden = !text;
  byId("alert-text").textContent = text ?? "";
}

async function attempt(work, clears = true) {
  try {
    const found = await work();
    if (clears) complain(null);
    return found ?? true;
  } catch (error) {
    complain(error.message);
    return null;
  }
}

async function loadSession() {
  session = await read("/api/session");
  renew(byId("lines"), session.lines, () => session.lines.map((each) => {
    const people = each.people.map((power) => titled(power)).join(", ");
    return new Option(`${each.name} \u00b7 ${each.over ? "over" : each.phase}${people ? ` \u00b7 ${people}` : ""}`, each.id);
  }));
  byId("lines").parentElement.hidden = byId("save").hidden = !session.lines.length;
  if (line) byId("lines").value = line.id;
  byId("problems").textContent = session.problems.join(" ");
}

const isLate = (found) => found.id !== wanted || (line?.id === found.id && found.revision < line.revision);

// Takes over what the server says of a line, unless something newer is shown.
async function take(found) {
  if (isLate(found)) return;
  const before = line && line.id === found.id ? line : null;
  const known = before ? before.past : [];
  if (found.since > known.length) {
    found = await read(`/api/lines/${found.id}?since=${known.length}`);
    if (isLate(found)) return;
  }
  found.past = [...known.slice(0, found.since), ...found.past];
  line = found;
  if (!before) {
    at = null;
    pause();
    location.hash = `line=${line.id}`;
    byId("save").href = `/api/lines/${line.id}/game`;
  }
  draw();
}

async function loadLine(id) {
  wanted = id;
  await take(await read(`/api/lines/${id}?since=${line?.id === id ? line.past.length : 0}`));
}

// The line that the address names, else the newest.
function namedLine() {
  const ids = session.lines.map((each) => each.id);
  const asked = Number(/line=(\d+)/.exec(location.hash)?.[1]);
  return ids.includes(asked) ? asked : ids.at(-1);
}

// A change of the line that is shown; true once the server has it on disk.
function act(name, body = {}) {
  const { id, present } = line;
  return attempt(async () => take(await send(`/api/lines/${id}/${name}`, { phase: present.phase, ...body })));
}

function draw() {
  byId("stage").hidden = false;
  byId("lines").value = line.id;
  const { present } = line;
  const looking = at !== null;
  const shown = looking ? line.past[at] : present;
  byId("phase").textContent = title(shown.phase);
  byId("kind").textContent = looking ? `${KINDS[shown.phase.at(-1)] ?? ""}, over` : KINDS[shown.phase.at(-1)] ?? "";
  byId("slider").max = line.count;
  byId("slider").value = looking ? at : line.count;
  byId("slider").setAttribute("aria-valuetext", title(shown.phase));
  byId("place").textContent = shown.phase === "COMPLETED" ? "end" : shown.phase;
  byId("live").hidden = byId("past").hidden = !looking;
  byId("back").disabled = (at ?? line.count) === 0;
  byId("next").disabled = !looking;
  const watching = !looking && present.watching && !present.over;
  byId("watch").hidden = !watching;
  byId("recall").hidden = looking || !present.submitted || present.watching;
  if (byId("extend").hidden && present.over && !looking) byId("until").value = Math.min(1999, Number(present.phase.slice(1, 5)) + 4) || "end";
  byId("extend").hidden = looking || !present.over || present.phase === "COMPLETED";
  orders.show(looking ? null : present, line);
  hints.show(session, `${line.id} ${line.count} ${orders.power}`);
  players.show(session, shown, line.seats, looking ? null : present.answers, shown.players);
  drawMap(shown, looking);
  showOrders(looking ? [shown] : lastPhases(), orderTitle, session.powers, board.data.names);
  drawFailures(looking ? {} : present.answers);
  const text = status(looking);
  if (byId("status").textContent !== text) byId("status").textContent = text;
  goOn();
}

const orderTitle = (phase) => `${title(phase)}${phase.at(-1) === "M" ? "" : `, ${KINDS[phase.at(-1)].toLowerCase()}`}`;

// The past phases since the latest movement, that one first.
function lastPhases() {
  const start = line.past.findLastIndex((phase) => phase.phase.endsWith("M"));
  return line.past.slice(Math.max(start, 0));
}

function status(looking) {
  const { present } = line;
  if (looking) return "A phase that is over. Fork here to play on from it in a new line; this one stays.";
  if (present.over) return `The game is over. ${present.over}`;
  const those = (state) => Object.entries(present.answers).filter(([, answer]) => answer.state === state).map(([power]) => titled(power));
  const told = (names, one, many) => (names.length ? ` ${names.join(", ")} ${names.length === 1 ? one : many}.` : "");
  const failures = told(those("failed"), "did not answer", "did not answer");
  const wait = told(those("opening"), "is being opened", "are being opened") + told(those("thinking"), "is thinking", "are thinking") + failures;
  if (present.watching) return `You watch.${wait}`;
  if (present.submitted || !present.waiting.length) return `The orders are given.${wait}`;
  return `${present.waiting.length > 1 ? `${titled(orders.power)}: ` : `You play ${titled(orders.power)}. `}${orders.progress()}${wait || " All others have answered."}`;
}

function drawMap(shown, looking) {
  const drawn = [];
  for (const last of byId("show-orders").checked ? (looking ? [shown] : lastPhases()) : []) {
    for (const [power, own] of Object.entries(last.orders)) {
      for (const order of own) drawn.push([power, order, `${failed(last, order) ? "failed" : ""}${looking ? "" : " last"}`]);
    }
  }
  if (!looking) {
    for (const [power, decision] of Object.entries(line.present.decisions)) for (const order of decision.orders) drawn.push([power, order, "pending"]);
  }
  const told = Object.entries(shown.units).filter(([, units]) => units.length).map(([power, units]) => `${titled(power)}: ${units.join(", ")}`);
  board.show(shown, drawn, `Map, ${title(shown.phase)}. ${told.join("; ")}.`);
  if (!looking) orders.decision && orders.mark();
}

function drawFailures(answers) {
  const bad = Object.entries(answers).filter(([, answer]) => answer.state === "failed");
  renew(byId("failures"), bad, () => bad.map(([power, answer]) => {
    const box = element("div");
    const again = element("button", "", "Ask again");
    again.type = "button";
    again.addEventListener("click", () => attempt(async () => take(await send(`/api/lines/${line.id}/retry`, {}))));
    box.append(`${titled(power)} did not answer: ${answer.problem} `, again);
    return box;
  }));
}

function look(index) {
  at = index >= line.count || index < 0 ? null : index;
  if (at !== null) pause();
  draw();
}

function pause() {
  clearTimeout(timer);
  playing = false;
  timer = null;
  byId("play").textContent = "Play";
}

// Plays the next phase of a watched game a while after the one before.
function goOn() {
  if (!playing || timer !== null) return;
  if (line.present.over || !line.present.watching) pause();
  else if (!line.present.submitted) {
    timer = setTimeout(() => {
      timer = null;
      act("submit");
    }, Number(byId("speed").value));
  }
}

async function begin(path, body) {
  return attempt(async () => {
    const made = await (typeof body === "string" ? sendText(path, body) : send(path, body));
    await loadSession();
    await loadLine(made.id);
  });
}

let refreshing = false;
let again = false;
// Reads again what the page shows; changes that come meanwhile are read together afterwards.
async function refresh() {
  again = true;
  if (refreshing) return;
  refreshing = true;
  while (again) {
    again = false;
    await attempt(async () => {
      await loadSession();
      const id = wanted ?? namedLine();
      if (id) await loadLine(id);
      else if (!byId("setup").open) setup.open(session);
    }, false);
  }
  refreshing = false;
}

function connect() {
  byId("lines").addEventListener("change", () => attempt(() => loadLine(Number(byId("lines").value))));
  byId("new").addEventListener("click", () => setup.open(session));
  byId("load").addEventListener("change", async () => {
    const [file] = byId("load").files;
    if (file) await begin("/api/load", await file.text());
    byId("load").value = "";
  });
  byId("alert-close").addEventListener("click", () => complain(null));
  byId("back").addEventListener("click", () => look((at ?? line.count) - 1));
  byId("next").addEventListener("click", () => look((at ?? line.count) + 1));
  byId("live").addEventListener("click", () => look(line.count));
  byId("slider").addEventListener("input", (event) => look(Number(event.target.value)));
  byId("fork").addEventListener("click", () => begin(`/api/lines/${line.id}/fork`, { index: at, redraw: byId("redraw").checked }));
  byId("submit").addEventListener("click", () => act("submit"));
  byId("recall").addEventListener("click", () => act("recall"));
  byId("step").addEventListener("click", () => act("submit"));
  byId("play").addEventListener("click", () => {
    if (playing) return pause();
    byId("play").textContent = "Pause";
    playing = true;
    goOn();
  });
  byId("extend").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => take(await send(`/api/lines/${line.id}/until`, { until: byId("until").value.trim() })));
  });
  byId("show-orders").addEventListener("change", draw);
  byId("show-names").addEventListener("change", () => board.showNames(byId("show-names").checked));
  window.addEventListener("hashchange", () => session && namedLine() !== wanted && attempt(() => loadLine(namedLine())));
  document.addEventListener("keydown", (event) => {
    if (!event.ctrlKey || event.altKey || byId("setup").open || !line || at !== null) return;
    if (event.key === "Enter" && !byId("orders").hidden) act("submit");
    else if (event.key === "z" && !byId("undo").disabled && !byId("order").value) orders.change("undo", {});
    else return;
    event.preventDefault();
  });
}

async function start() {
  const data = await read("/api/board");
  board = new Board(byId("board"), data, (place) => at === null && line && orders.clicked(place));
  orders = new Orders(data.names, act, (...marks) => board.mark(...marks));
  players = new Players((power, player) => act("seat", { power, player }).then((done) => done || draw()));
  hints = new Hints(
    (player) => attempt(() => read(`/api/lines/${line.id}/hints?power=${orders.power}&player=${encodeURIComponent(player)}`)),
    (sheet) => orders.change("sheet", { orders: sheet }).then((done) => done && orders.select(null)),
  );
  setup = new Setup((body) => begin("/api/lines", body));
  connect();
  listen(
    refresh,
    (connected) => (byId("connection").textContent = connected ? "" : "The connection is lost; trying again."),
  );
}

attempt(start);
