// The map: provinces by owner, units, orders, and what may be clicked.
const SVG = "http://www.w3.org/2000/svg";
const UNIT = 19; // half of a unit's width
const HULL = "M -23 -9 L 23 -9 L 15 13 Q 0 17 -15 13 Z";

export const titled = (name) => name.charAt(0) + name.slice(1).toLowerCase();
export const placeOf = (order) => order.slice(2).split(" ")[0];
export const province = (place) => place.slice(0, 3);

const shownIn = new WeakMap();
// Replaces what is in a box by what `make` returns, unless it shows the same already: a new element would lose the focus.
export function renew(box, key, make) {
  const text = JSON.stringify(key);
  if (shownIn.get(box) === text) return;
  shownIn.set(box, text);
  box.replaceChildren(...make());
}

export function vector(tag, attributes, children = []) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// An order in words, for those who listen to the page.
export function spoken(order, names) {
  if (order === "WAIVE") return "Do not build";
  const kinds = { A: "army", F: "fleet" };
  const name = (place) => names[place] ?? place;
  const words = order.split(" ");
  const unit = `${kinds[words[0]]} ${name(words[1])}`;
  const tail = words.slice(2);
  const first = unit.charAt(0).toUpperCase() + unit.slice(1);
  if (tail[0] === "H") return `${first} holds`;
  if (tail[0] === "D") return `${first} disbands`;
  if (tail[0] === "B") return `Build ${kinds[words[0]] === "army" ? "an army" : "a fleet"} in ${name(words[1])}`;
  if (tail[0] === "R") return `${first} retreats to ${name(tail[1])}`;
  if (tail[0] === "-") return `${first} moves to ${name(tail[1])}${tail[2] ? " by convoy" : ""}`;
  const other = `${kinds[tail[1]]} ${name(tail[2])}`;
  const verb = tail[0] === "S" ? "supports" : "convoys";
  return tail[3] ? `${first} ${verb} ${other} to ${name(tail[4])}` : `${first} ${verb} ${other}`;
}

export class Board {
  constructor(box, data, clicked) {
    this.data = data;
    this.box = box;
    const drawing = new DOMParser().parseFromString(data.svg, "image/svg+xml").documentElement;
    this.svg = document.importNode(drawing, true);
    this.svg.setAttribute("aria-hidden", "true"); // its label and the panels say what it shows
    this.shapes = new Map();
    for (const [name, id] of Object.entries(data.shapes)) {
      const shape = this.svg.querySelector(`[id="${id}"]`);
      if (!shape) continue;
      shape.dataset.place = name;
      const title = document.createElementNS(SVG, "title");
      title.textContent = `${data.names[name]} (${name})`;
      shape.append(title);
      this.shapes.set(name, [shape, shape.getAttribute("class")]);
    }
    this.svg.querySelector("#BriefLabelLayer").classList.add("labels");
    this.marks = vector("g", { class: "marks" });
    this.orders = vector("g", { class: "order-layer" });
    this.units = vector("g", { class: "unit-layer" });
    this.svg.append(this.marks, this.orders, this.units);
    this.svg.addEventListener("click", (event) => {
      const place = event.target.closest("[data-place]")?.dataset.place;
      if (place) clicked(place);
    });
    box.replaceChildren(this.svg);
  }

  showNames(shown) {
    this.svg.classList.toggle("unnamed", !shown);
  }

  at(place) {
    return this.data.places[place] ?? this.data.places[province(place)] ?? [0, 0];
  }

  // `phase` has units, dislodged, centres and influence; `drawn` are [power, order, state], state "pending", "failed",
  // "last" or "".
  show(phase, drawn, label) {
    const key = JSON.stringify([phase, drawn]);
    if (key === this.key) return;
    this.key = key;
    this.box.setAttribute("aria-label", label);
    for (const [shape, plain] of this.shapes.values()) shape.setAttribute("class", plain);
    for (const places of [phase.influence, phase.centers]) {
      for (const [power, owned] of Object.entries(places)) {
        for (const place of owned) {
          const found = this.shapes.get(province(place));
          if (found && found[1] !== "water") found[0].setAttribute("class", `owned ${power}`);
        }
      }
    }
    this.units.replaceChildren();
    for (const [power, units] of Object.entries(phase.units)) for (const unit of units) this.drawUnit(power, unit, false);
    for (const [power, units] of Object.entries(phase.dislodged)) for (const unit of Object.keys(units)) this.drawUnit(power, unit, true);
    this.orders.replaceChildren(...drawn.map(([power, order, state]) => this.drawOrder(power, order, state)).filter(Boolean));
  }

  drawUnit(power, unit, dislodged) {
    const place = unit.slice(2);
    const [x, y] = this.at(place);
    const shift = dislodged ? 20 : 0;
    const body = unit[0] === "A" ? vector("circle", { r: UNIT, class: "body" }) : vector("path", { d: HULL, class: "body" });
    const letter = vector("text", { y: unit[0] === "A" ? 7 : 8, class: "letter" });
    letter.textContent = unit[0];
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${titled(power)}: ${unit}${dislodged ? ", dislodged" : ""}`;
    const drawn = vector("g", { class: `unit ${power}${dislodged ? " dislodged" : ""}`, transform: `translate(${x + shift} ${y - shift})` }, [title, vector("g", { class: "token" }, [body, letter])]);
    drawn.dataset.place = place;
    this.units.append(drawn);
  }

  // Places that may be clicked next, the unit that is selected, and the one that it is to help.
  mark(targets, selected, helped) {
    for (const [name, [shape]] of this.shapes) shape.classList.toggle("target", targets.has(name));
    for (const unit of this.units.children) {
      unit.classList.toggle("selected", unit.dataset.place === selected);
      unit.classList.toggle("helped", unit.dataset.place === helped);
      unit.classList.toggle("target", targets.has(province(unit.dataset.place)));
    }
  }

  drawOrder(power, order, state) {
    const words = order.split(" ");
    const names = `order ${power} ${state}`;
    if (order === "WAIVE") return null;
    const from = this.at(words[1]);
    const [x, y] = from;
    const made = vector("g", { class: names });
    const kind = words[2];
    if (kind === "H") made.append(vector("circle", { cx: x, cy: y, r: UNIT + 9, class: "line" }));
    else if (kind === "D") made.append(vector("path", { d: `M ${x - 24} ${y - 24} l 48 48 m 0 -48 l -48 48`, class: "line gone" }));
    else if (kind === "B") {
      made.append(vector("circle", { cx: x, cy: y, r: UNIT + 11, class: "line built" }));
      const letter = vector("text", { x, y: y + 7, class: "letter" });
      letter.textContent = words[0];
      made.append(letter);
    } else if (kind === "-" || kind === "R") this.arrow(made, from, this.at(words[3]), kind === "R" || words[4] === "VIA");
    else if (words.length < 6) this.help(made, from, this.at(words[4]), kind);
    else {
      const [source, goal] = [this.at(words[4]), this.at(words[6])];
      this.help(made, from, [0, 1].map((axis) => source[axis] + 0.55 * (goal[axis] - source[axis])), kind);
    }
    return made;
  }

  arrow(made, [x, y], [goalX, goalY], dashed) {
    const length = Math.hypot(goalX - x, goalY - y) || 1;
    const [dx, dy] = [(goalX - x) / length, (goalY - y) / length];
    const [startX, startY] = [x + dx * UNIT, y + dy * UNIT];
    const [tipX, tipY] = [goalX - dx * 12, goalY - dy * 12];
    const [neckX, neckY] = [tipX - dx * 20, tipY - dy * 20];
    const shaft = `M ${startX} ${startY} L ${neckX} ${neckY}`;
    made.append(vector("path", { d: shaft, class: "casing" }), vector("path", { d: shaft, class: dashed ? "line dashed" : "line" }));
    made.append(vector("path", { d: `M ${tipX} ${tipY} L ${neckX - dy * 13} ${neckY + dx * 13} L ${neckX + dy * 13} ${neckY - dx * 13} Z`, class: "head" }));
    const [middleX, middleY] = [(startX + neckX) / 2, (startY + neckY) / 2];
    made.append(vector("path", { d: `M ${middleX - 9} ${middleY - 9} l 18 18 m 0 -18 l -18 18`, class: "cross" }));
  }

  help(made, [x, y], [goalX, goalY], kind) {
    const line = `M ${x} ${y} L ${goalX} ${goalY}`;
    made.append(vector("path", { d: line, class: "casing" }), vector("path", { d: line, class: kind === "S" ? "line dashed" : "line dotted" }));
    made.append(vector("circle", { cx: goalX, cy: goalY, r: 7, class: "head" }));
    made.append(vector("path", { d: `M ${(x + goalX) / 2 - 9} ${(y + goalY) / 2 - 9} l 18 18 m 0 -18 l -18 18`, class: "cross" }));
  }
}
