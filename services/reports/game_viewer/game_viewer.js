"use strict";
const game = JSON.parse(document.getElementById("data").textContent);
const frames = game.frames;
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const SEASONS = { S: "Spring", F: "Fall", W: "Winter" };
const KINDS = { M: "Movement", R: "Retreats", A: "Builds and disbands" };
const PLAY_MS = 1200;
let current = 0;
let timer = null;

// The map's style sheet stays inside a shadow root, so that its class names do not reach the page.
const board = byId("board").attachShadow({ mode: "open" });
board.append(document.importNode(new DOMParser().parseFromString(game.map, "image/svg+xml").documentElement, true));
const map = board.querySelector("svg");
map.style.cssText = "display:block;width:100%;height:auto;background:#c5dfea";
const layer = (id) => board.getElementById(id);
const shapes = new Map();
for (const province of layer("MapLayer").children) {
  const parts = [province, ...province.children].filter((part) => part.matches("path, polygon"));
  const land = parts.filter((part) => part.getAttribute("class") !== "water");
  shapes.set(province.id, land.map((part) => [part, part.getAttribute("class")]));
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function vector(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function title(phase) {
  const [, season, year, kind] = /^(.)(\d+)(.)$/.exec(phase) ?? [];
  return year ? [`${SEASONS[season] ?? season} ${year}`, KINDS[kind] ?? kind] : ["Final position", phase];
}

function drawMap(frame) {
  for (const parts of shapes.values()) for (const [part, plain] of parts) part.setAttribute("class", plain);
  for (const [power, ids] of Object.entries(frame.owners)) {
    for (const id of ids) for (const [part] of shapes.get(id) ?? []) part.setAttribute("class", power.toLowerCase());
  }
  for (const [id, inside] of Object.entries(frame.layers)) layer(id).innerHTML = inside;
}

function drawSide(frame) {
  const [name, kind] = title(frame.phase);
  byId("phase").textContent = name;
  byId("kind").textContent = kind;
  const order = [...game.powers].sort((a, b) => frame.centers[b] - frame.centers[a] || a.localeCompare(b));
  byId("powers").replaceChildren(...order.map((power) => drawPower(frame, power)));
  const press = byId("press");
  press.hidden = frame.messages.length === 0;
  press.replaceChildren(...frame.messages.map(([from, to, text]) => {
    const line = element("p");
    line.append(element("b", "", `${from} to ${to}: `), text);
    return line;
  }));
}

function drawPower(frame, power) {
  const box = element("section", "power");
  const head = element("h3");
  const swatch = element("span", "swatch");
  swatch.style.background = game.colors[power] ?? "gray";
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const count = `${plural(frame.centers[power], "centre")}, ${plural(frame.units[power], "unit")}`;
  head.append(swatch, power.charAt(0) + power.slice(1).toLowerCase());
  if (game.seats[power]) head.append(element("span", "seat", game.seats[power]));
  head.append(element("span", "count", count));
  box.append(head);
  if (frame.centers[power] + frame.units[power] === 0) box.classList.add("gone");
  const list = element("ul");
  for (const [text, results] of frame.orders[power] ?? []) {
    const line = element("li");
    line.append(element("code", "", text), element("span", "result", results.join(", ")));
    list.append(line);
  }
  if (list.children.length) box.append(list);
  return box;
}

const chart = byId("chart");
const most = Math.max(18, ...frames.flatMap((frame) => Object.values(frame.centers))) + 1;
const x = (index) => (frames.length > 1 ? (index / (frames.length - 1)) * 1000 : 500);
const y = (centers) => 146 - (centers / most) * 142;
const now = vector("line", { class: "now", y1: 0, y2: 150 });

function drawChart() {
  chart.append(vector("line", { class: "axis", x1: 0, x2: 1000, y1: y(0), y2: y(0) }));
  chart.append(vector("line", { class: "goal", x1: 0, x2: 1000, y1: y(18), y2: y(18) }));
  for (const power of game.powers) {
    // Steps: centres change only when a year's last phase is adjudicated.
    const course = frames.map((frame, index) =>
      index ? `H${x(index)}V${y(frame.centers[power])}` : `M${x(0)} ${y(frame.centers[power])}`);
    const path = vector("path", { class: "course", d: course.join(""), stroke: game.lineColors[power] ?? "gray" });
    path.dataset.power = power;
    chart.append(path);
  }
  chart.append(now);
}

function show(index) {
  current = Math.min(frames.length - 1, Math.max(0, index));
  const frame = frames[current];
  drawMap(frame);
  drawSide(frame);
  now.setAttribute("x1", x(current));
  now.setAttribute("x2", x(current));
  byId("slider").value = current;
  byId("slider").setAttribute("aria-valuetext", title(frame.phase).join(", "));
  byId("place").textContent = frame.phase === "COMPLETED" ? "end" : frame.phase;
  byId("board").setAttribute("aria-label", `Map, ${title(frame.phase).join(", ")}`);
  if (current === frames.length - 1) pause();
}

function pause() {
  clearInterval(timer);
  timer = null;
  byId("play").textContent = "\u25B6";
  byId("play").setAttribute("aria-label", "Play");
}

function toggle() {
  if (timer !== null) return pause();
  if (current === frames.length - 1) show(0);
  timer = setInterval(() => show(current + 1), PLAY_MS);
  byId("play").textContent = "\u275A\u275A";
  byId("play").setAttribute("aria-label", "Pause");
}

byId("slider").max = frames.length - 1;
byId("slider").addEventListener("input", (event) => show(Number(event.target.value)));
byId("back").addEventListener("click", () => show(current - 1));
byId("next").addEventListener("click", () => show(current + 1));
byId("play").addEventListener("click", toggle);
byId("show-orders").addEventListener("change", (event) => {
  for (const id of ["OrderLayer", "HighestOrderLayer"]) layer(id).style.display = event.target.checked ? "" : "none";
});
byId("show-names").addEventListener("change", (event) => {
  layer("BriefLabelLayer").style.display = event.target.checked ? "" : "none";
});
chart.addEventListener("click", (event) => {
  const place = chart.getBoundingClientRect();
  show(Math.round(((event.clientX - place.left) / place.width) * (frames.length - 1)));
});
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const onControl = event.target.matches("button, input[type=checkbox]");
  const steps = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: frames.length - 1 };
  if (event.key in steps) show(steps[event.key]);
  else if (event.key === " " && !onControl) toggle();
  else return;
  event.preventDefault();
});

byId("title").textContent = game.title;
byId("subtitle").textContent = game.subtitle;
layer("BriefLabelLayer").style.display = "none";
drawChart();
show(0);
