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

const titled = (power) => power.charAt(0) + power.slice(1).toLowerCase();
const lineColor = (power) => (power in game.colors ? `var(--line-${power})` : "gray");

function swatch(power) {
  const made = element("span", "swatch");
  made.style.background = game.colors[power] ?? "gray";
  return made;
}

function drawSide(frame) {
  const [name, kind] = title(frame.phase);
  byId("phase").textContent = name;
  byId("kind").textContent = kind;
  const order = [...game.powers].sort((a, b) => frame.centers[b] - frame.centers[a] || a.localeCompare(b));
  byId("powers").replaceChildren(...order.map((power) => drawStanding(frame, power)));
  byId("orders").replaceChildren(...order.filter((power) => frame.orders[power]?.length).map((power) => drawOrders(frame, power)));
  if (!byId("orders").children.length) byId("orders").append(element("p", "soft", "No orders in this phase."));
  const press = byId("press");
  press.hidden = frame.messages.length === 0;
  press.replaceChildren(...frame.messages.map(([from, to, text]) => {
    const line = element("p");
    line.append(element("b", "", `${from} to ${to}: `), text);
    return line;
  }));
}

function drawStanding(frame, power) {
  const row = element("tr", frame.centers[power] + frame.units[power] === 0 ? "gone" : "");
  row.dataset.power = power;
  const country = element("td");
  country.append(swatch(power), titled(power));
  const name = game.seats[power]?.player ?? "";
  const player = element("td", "", name.replace("/checkpoints/", " v")); // the column is narrow
  player.title = name;
  row.append(country, player, element("td", "", frame.centers[power]), element("td", "", frame.units[power]));
  return row;
}

function drawOrders(frame, power) {
  const box = element("section", "power");
  const head = element("h3");
  head.append(swatch(power), titled(power));
  const list = element("ul");
  for (const [text, results] of frame.orders[power]) {
    const line = element("li");
    line.append(element("code", "", text), element("span", "result", results.join(", ")));
    list.append(line);
  }
  box.append(head, list);
  return box;
}

function drawOrigin() {
  byId("origin-facts").textContent = game.originNote || game.originFacts.map(([name, value]) => `${name} ${value}`).join(" \u00b7 ");
  byId("origin-scroll").hidden = Boolean(game.originNote);
  byId("origin-seats").replaceChildren(...Object.entries(game.seats).map(([power, seat]) => {
    const row = element("tr");
    const country = element("td");
    country.append(swatch(power), titled(power));
    const checksum = element("td");
    checksum.append(element("code", "", seat.checksum));
    row.append(country, ...["player", "kind", "version", "sampling"].map((name) => element("td", "", seat[name])), checksum);
    return row;
  }));
}

const chart = byId("chart");
const MARGIN = { left: 26, right: 8, top: 8, bottom: 20 };
const SOLO = 18;
const EVEN_SHARE = 34 / 7;
const LINE_GAP = 1.5; // pixels between lines of equal height, so that none hides another
const YEAR_GAP = 46; // pixels that a year's number takes
const most = Math.max(SOLO, ...frames.flatMap((frame) => Object.values(frame.centers))) + 1;
const now = vector("line", { class: "now" });
const plot = { width: 1, height: 1 };
const x = (index) => MARGIN.left + (frames.length > 1 ? index / (frames.length - 1) : 0.5) * plot.width;
const y = (centers) => MARGIN.top + (1 - centers / most) * plot.height;

function years() {
  const found = new Map();
  frames.forEach((frame, index) => {
    const year = /^.(\d+).$/.exec(frame.phase)?.[1];
    if (year && !found.has(Number(year))) found.set(Number(year), index);
  });
  return [...found];
}

function drawChart() {
  plot.width = Math.max(1, chart.clientWidth - MARGIN.left - MARGIN.right);
  plot.height = Math.max(1, chart.clientHeight - MARGIN.top - MARGIN.bottom);
  chart.replaceChildren();
  const right = MARGIN.left + plot.width;
  const across = (centers, name) => chart.append(vector("line", { class: name, x1: MARGIN.left, x2: right, y1: y(centers), y2: y(centers) }));
  const number = (value, attributes) => {
    const text = vector("text", attributes);
    text.textContent = value;
    chart.append(text);
  };
  for (let centers = 0; centers <= most; centers += 6) {
    across(centers, centers === SOLO ? "goal" : "grid");
    number(centers, { class: "centers", x: MARGIN.left - 6, y: y(centers) + 4, "text-anchor": "end" });
  }
  across(EVEN_SHARE, "even");
  const shown = years();
  const every = [1, 2, 5, 10, 20, 50].find((step) => (shown.length / step) * YEAR_GAP <= plot.width) ?? 100;
  for (const [year, index] of shown.filter(([year]) => (year - shown[0][0]) % every === 0)) {
    chart.append(vector("line", { class: "grid", x1: x(index), x2: x(index), y1: y(0), y2: y(0) + 4 }));
    const anchor = index ? (x(index) > right - 14 ? "end" : "middle") : "start";
    number(year, { class: "year", x: x(index), y: y(0) + 16, "text-anchor": anchor });
  }
  game.powers.forEach((power, place) => {
    const lift = (place - (game.powers.length - 1) / 2) * LINE_GAP;
    const height = (frame) => (y(frame.centers[power]) + lift).toFixed(1);
    // Steps: centres change only when a year's last phase is adjudicated.
    const course = frames.map((frame, index) => (index ? `H${x(index)}V${height(frame)}` : `M${x(0)} ${height(frame)}`));
    const path = vector("path", { class: "course", d: course.join("") });
    path.style.stroke = lineColor(power);
    path.dataset.power = power;
    chart.append(path);
  });
  chart.append(now);
  markNow();
}

function markNow() {
  for (const [name, value] of Object.entries({ x1: x(current), x2: x(current), y1: MARGIN.top, y2: MARGIN.top + plot.height })) {
    now.setAttribute(name, value);
  }
}

function drawLegend() {
  byId("legend").replaceChildren(...game.powers.map((power) => {
    const item = element("span");
    const line = element("i");
    line.style.background = lineColor(power);
    item.append(line, titled(power));
    return item;
  }));
}

function show(index) {
  current = Math.min(frames.length - 1, Math.max(0, index));
  const frame = frames[current];
  drawMap(frame);
  drawSide(frame);
  markNow();
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
  show(Math.round(((event.clientX - place.left - MARGIN.left) / plot.width) * (frames.length - 1)));
});
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest(".scroll, .orders")) return; // a focused box scrolls by these keys
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
drawOrigin();
drawLegend();
new ResizeObserver(drawChart).observe(chart);
show(0);
