"use strict";
const both = JSON.parse(document.getElementById("data").textContent);
const steps = both.steps;
let power = "";

function makeSide(game, place) {
  const name = `Game ${place + 1}`;
  const host = element("div", "board");
  host.setAttribute("role", "img");
  const absent = element("p", "absent");
  const standings = element("tbody");
  const head = element("tr", "", ...["country", "player", "centres", "units"].map((text) => {
    const cell = element("th", "", text);
    cell.scope = "col";
    return cell;
  }));
  const orders = element("div", "orders");
  const press = element("div", "press");
  const decision = element("div");
  const note = element("p", "soft", game.decisionsNote);
  const decisions = element("section", "card decisions", element("h3", "", "Decision"), note, decision);
  const side = element("section", "side-of-pair",
    element("h2", "", game.title), element("p", "soft", game.subtitle),
    element("div", "card map", host, absent),
    element("div", "card standings", element("table", "", element("thead", "", head), standings)),
    element("div", "card", orders, press), decisions);
  side.setAttribute("aria-label", name);
  byId("pair").append(side);
  const board = makeBoard(host, both.map);
  return {
    board,
    draw(step) {
      const frame = game.frames[step.frames[place]];
      const present = step.present[place];
      board.draw(frame);
      host.setAttribute("aria-label", `${name}. ${host.getAttribute("aria-label")}`);
      host.classList.toggle("stale", !present);
      absent.textContent = present ? "" : `This game has no such phase; shown is ${placeName(frame.phase)}.`;
      standings.replaceChildren(...game.powers.map((each) => drawStanding(game, frame, each)));
      orders.replaceChildren(...(present ? drawSheets(game, frame, step, place) : []));
      if (!orders.children.length) orders.append(element("p", "soft", "No orders to show."));
      const told = (what) => (present ? game.press[what]?.[frame.phase] : []);
      drawPress(press, present ? frame.messages : [], told("promises"), told("meanings"));
      decisions.hidden = powers.length === 0 && !game.decisionsNote;
      drawDecision(decision, game, present ? frame.phase : "", power);
    },
  };
}

function drawStanding(game, frame, each) {
  const row = element("tr", frame.centers[each] + frame.units[each] === 0 ? "gone" : "");
  const player = game.seats[each]?.player ?? "";
  row.append(element("td", "", swatch(each, game.colors), titled(each)), element("td", "", player.replace("/checkpoints/", " v")),
    element("td", "", frame.centers[each]), element("td", "", frame.units[each]));
  return row;
}

function drawSheets(game, frame, step, place) {
  const onlyDifferent = byId("only-different").checked;
  return game.powers
    .filter((each) => (step.different[each] ? true : !onlyDifferent && frame.orders[each]?.length))
    .map((each) => {
      const alone = step.different[each]?.[place] ?? [];
      const head = element("h3", "", swatch(each, game.colors), titled(each));
      if (step.different[each]) head.append(element("span", "differs", "differs"));
      return element("section", "power", head, orderList(frame.orders[each] ?? [], (order) => alone.includes(order)));
    });
}

function drawStep(index) {
  const step = steps[index];
  const [name, kind] = title(step.phase);
  byId("phase").textContent = name;
  byId("kind").textContent = index === both.parting ? `${kind} \u00b7 they part here` : kind;
  byId("power").value = power;
  sides.forEach((side) => side.draw(step));
}

const powers = fillPowers(byId("power"), both.games, (chosen) => {
  power = chosen;
  timeline.refresh();
});
const sides = both.games.map(makeSide);
const timeline = makeTimeline(steps.map((step) => step.phase), drawStep, {
  get: () => power,
  set: (wanted) => (power = powers.includes(wanted) ? wanted : powers[0] ?? ""),
}, both.parting ?? 0);

for (const [id, call] of [["show-orders", "showOrders"], ["show-names", "showNames"]]) {
  byId(id).addEventListener("change", (event) => sides.forEach((side) => side.board[call](event.target.checked)));
}
byId("only-different").addEventListener("change", () => drawStep(timeline.current));
byId("parting").addEventListener("click", () => timeline.go(both.parting));
byId("parting").hidden = both.parting === null;
byId("power-label").hidden = powers.length === 0;
byId("title").textContent = both.title;
byId("note").textContent = both.note;
timeline.start();
