"use strict";
const game = JSON.parse(document.getElementById("data").textContent);
const frames = game.frames;
const board = makeBoard(byId("board"), game.map);
let power = "";
const lineColor = (power) => (power in game.colors ? `var(--line-${power})` : "gray");

function drawSide(frame) {
  const [name, kind] = title(frame.phase);
  byId("phase").textContent = name;
  byId("kind").textContent = kind;
  const order = [...game.powers].sort((a, b) => frame.centers[b] - frame.centers[a] || a.localeCompare(b));
  byId("powers").replaceChildren(...order.map((power) => drawStanding(frame, power)));
  byId("orders").replaceChildren(...order.filter((power) => frame.orders[power]?.length).map((power) => drawOrders(frame, power)));
  if (!byId("orders").children.length) byId("orders").append(element("p", "soft", "No orders in this phase."));
  drawPress(byId("press"), frame.messages, game.press.promises?.[frame.phase], game.press.meanings?.[frame.phase]);
}

function drawStanding(frame, power) {
  const row = element("tr", frame.centers[power] + frame.units[power] === 0 ? "gone" : "");
  row.dataset.power = power;
  const country = element("td");
  country.append(swatch(power, game.colors), titled(power));
  const name = game.seats[power]?.player ?? "";
  const player = element("td", "", name.replace("/checkpoints/", " v")); // the column is narrow
  player.title = name;
  row.append(country, player, element("td", "", frame.centers[power]), element("td", "", frame.units[power]));
  return row;
}

function drawOrders(frame, owner) {
  const head = element("h3", "", swatch(owner, game.colors), titled(owner));
  if (game.decisions[frame.phase]?.[owner]) {
    const why = element("button", "why", "why?");
    why.type = "button";
    why.setAttribute("aria-label", `Why ${titled(owner)} chose these orders`);
    why.addEventListener("click", () => {
      choosePower(owner);
      byId("decisions").scrollIntoView({ block: "start" });
      byId("decisions-title").focus({ preventScroll: true });
    });
    head.append(why);
  }
  return element("section", "power", head, orderList(frame.orders[owner]));
}

function drawOrigin() {
  byId("origin-facts").textContent = game.originNote || game.originFacts.map(([name, value]) => `${name} ${value}`).join(" \u00b7 ");
  byId("origin-scroll").hidden = Boolean(game.originNote);
  byId("origin-seats").replaceChildren(...Object.entries(game.seats).map(([power, seat]) => {
    const row = element("tr");
    const country = element("td");
    country.append(swatch(power, game.colors), titled(power));
    const checksum = element("td");
    checksum.append(element("code", "", seat.checksum));
    row.append(country, ...["player", "kind", "version", "sampling"].map((name) => element("td", "", seat[name])), checksum);
    return row;
  }));
}

// Promises by pair, also by the end of each year, and the alliances then.
function drawDeals() {
  byId("deals").hidden = !game.press.pairs && !game.pressNote;
  byId("deals-note").textContent = game.pressNote || "Kept promises of those that a legal order would have broken, by who gave them (rows) and to whom (columns). Peace and alliance of a pair count as one promise in a phase.";
  byId("deals-scroll").hidden = !game.press.pairs;
  if (!game.press.pairs) return;
  const counts = new Map(game.press.pairs.map(([giver, partner, kept, all]) => [`${giver} ${partner}`, [kept, all]]));
  const heading = (text, scope) => {
    const cell = element("th", "", text);
    cell.scope = scope;
    return cell;
  };
  const share = ([kept, all], none = "\u2013") => {
    const cell = element("td", "", all ? `${kept} of ${all}` : none);
    if (all) cell.style.background = `color-mix(in srgb, var(--accent) ${Math.round((kept / all) * 45)}%, color-mix(in srgb, var(--bad) ${Math.round((1 - kept / all) * 45)}%, transparent))`;
    return cell;
  };
  byId("deals-head").replaceChildren(element("td"), ...game.powers.map((partner) => heading(titled(partner), "col")));
  byId("deals-pairs").replaceChildren(...game.powers.map((giver) => {
    const cells = game.powers.map((partner) => share(counts.get(`${giver} ${partner}`) ?? [0, 0], giver === partner ? "" : undefined));
    return element("tr", "", heading(titled(giver), "row"), ...cells);
  }));
  const { years, pairs } = game.press.trust;
  byId("trust").hidden = !pairs.length;
  byId("trust-head").replaceChildren(element("td"), ...years.map((year) => heading(String(year), "col")));
  byId("trust-pairs").replaceChildren(...pairs.map(([giver, partner, counted]) =>
    element("tr", "", heading(`${titled(giver)} to ${titled(partner)}`, "row"), ...counted.map((each) => share(each)))));
  byId("alliances").replaceChildren(...game.press.alliances.map(([year, names]) =>
    element("li", "", element("b", "", `${year}: `), names.join(", ") || "none")));
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
  markNow(timeline.current);
}

function markNow(current) {
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

function drawDecisions(frame) {
  const [name] = title(frame.phase);
  byId("decisions-title").textContent = power ? `${titled(power)}, ${name}` : "Decisions";
  byId("power").value = power;
  drawDecision(byId("decision"), game, frame.phase, power);
}

function choosePower(chosen) {
  power = chosen;
  timeline.refresh();
}

const decided = fillPowers(byId("power"), [game], choosePower);
const timeline = makeTimeline(frames.map((frame) => frame.phase), (index) => {
  const frame = frames[index];
  board.draw(frame);
  drawSide(frame);
  drawDecisions(frame);
  markNow(index);
}, {
  get: () => power,
  set: (wanted) => (power = decided.includes(wanted) ? wanted : decided[0] ?? ""),
});

byId("show-orders").addEventListener("change", (event) => board.showOrders(event.target.checked));
byId("show-names").addEventListener("change", (event) => board.showNames(event.target.checked));
chart.addEventListener("click", (event) => {
  const place = chart.getBoundingClientRect();
  timeline.go(Math.round(((event.clientX - place.left - MARGIN.left) / plot.width) * (frames.length - 1)));
});
byId("title").textContent = game.title;
byId("subtitle").textContent = game.subtitle;
byId("decisions").hidden = decided.length === 0 && !game.decisionsNote;
byId("decisions-note").textContent = game.decisionsNote;
drawOrigin();
drawDeals();
drawLegend();
new ResizeObserver(drawChart).observe(chart);
timeline.start();
