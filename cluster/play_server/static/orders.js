// Entering orders: from the map, from the list of legal orders, or typed.
import { placeOf, province, renew, spoken, titled } from "./board.js";

const byId = (id) => document.getElementById(id);
const GROUPS = [
  ["Hold", (words) => words[2] === "H"],
  ["Move", (words) => words[2] === "-"],
  ["Support a unit that stays", (words) => words[2] === "S" && words.length === 5],
  ["Support a move", (words) => words[2] === "S" && words.length > 5],
  ["Convoy", (words) => words[2] === "C"],
  ["Retreat", (words) => words[2] === "R"],
  ["Build", (words) => words[2] === "B"],
  ["Disband", (words) => words[2] === "D"],
];
const OPEN = new Set(["Hold", "Move", "Retreat", "Build", "Disband"]);
const MODES = [["move", "Move or hold"], ["support", "Support"], ["convoy", "Convoy"]];

export class Orders {
  // `act(name, body)` sends a change; `names` are the full names of places; `marked` redraws the marks on the map.
  constructor(names, act, marked) {
    this.names = names;
    this.act = act;
    this.marked = marked;
    this.power = null;
    this.unit = null; // the place whose orders are listed
    this.isChosen = false; // whether a person chose it; else a click on the map may choose another
    this.mode = "move";
    this.helped = null; // "A PAR": the unit that is to be supported or convoyed
    this.few = null; // orders to choose from after a click that may mean several
    this.decision = null;
    this.key = "";
    byId("undo").addEventListener("click", () => this.change("undo", {}));
    byId("clear").addEventListener("click", () => this.change("clear", {}));
    byId("typed").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = byId("order").value.trim();
      if (text) this.change("enter", { order: text }).then((done) => done && (byId("order").value = ""));
    });
    byId("modes").replaceChildren(...MODES.map(([mode, text]) => {
      const button = this.button(text, () => this.setMode(mode));
      button.dataset.mode = mode;
      return button;
    }));
  }

  button(text, clicked, label) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", clicked);
    return made;
  }

  async change(name, body) {
    const done = await this.act(name, { power: this.power, ...body });
    return done;
  }

  // Shows the decision of one of the seats that people play; `present` is the line's present phase, or null.
  show(present, line) {
    const waiting = present && !present.submitted ? present.waiting : [];
    byId("orders").hidden = waiting.length === 0;
    if (!waiting.length) {
      this.decision = null;
      this.marked(new Set(), null, null);
      return;
    }
    if (!waiting.includes(this.power)) this.power = waiting[0];
    this.decision = present.decisions[this.power];
    this.present = present;
    const key = `${line.id} ${line.count} ${this.power}`;
    if (key !== this.key) {
      this.key = key;
      this.select(this.firstOpen(), true);
    }
    byId("seats").hidden = waiting.length < 2;
    renew(byId("seats"), [waiting, this.power], () => waiting.map((power) => {
      const button = this.button(titled(power), () => {
        this.power = power;
        this.show(this.present, line);
      });
      button.setAttribute("aria-pressed", power === this.power);
      return button;
    }));
    byId("modes").hidden = this.decision.kind !== "M";
    this.drawUnits();
    this.drawChoices();
    byId("undo").disabled = byId("clear").disabled = this.decision.entered === 0;
    renew(byId("legal"), this.allLegal(), () => this.allLegal().map((order) => new Option(order)));
    this.mark();
  }

  allLegal() {
    const all = Object.values(this.decision.legal).flat();
    return [...new Set(this.decision.owed > 0 ? [...all, "WAIVE"] : all)];
  }

  orderOf(place) {
    const wanted = this.decision.kind === "A" ? province(place) : place;
    return this.decision.orders.find((order) => order !== "WAIVE" && (this.decision.kind === "A" ? province(placeOf(order)) : placeOf(order)) === wanted);
  }

  isFull() {
    return this.decision.kind === "A" && this.decision.orders.length >= Math.abs(this.decision.owed);
  }

  firstOpen() {
    if (this.isFull()) return null;
    return this.decision.places.find((place) => !this.orderOf(place)) ?? null;
  }

  unitName(place) {
    if (this.decision.owed > 0) return place;
    return this.decision.legal[place]?.[0]?.slice(0, 2 + place.length) ?? place;
  }

  // Progress in words, for the status line.
  progress() {
    const { kind, owed, orders, places } = this.decision;
    if (kind === "A") {
      const left = Math.abs(owed) - orders.length;
      const what = owed > 0 ? "build" : "disband";
      return `${orders.length} of ${Math.abs(owed)} ${what}${Math.abs(owed) === 1 ? "" : "s"} ordered${owed > 0 && left ? "; the rest is waived" : ""}.`;
    }
    const rest = places.length - orders.length;
    return `${orders.length} of ${places.length} ordered${rest ? `; the rest ${kind === "M" ? "hold" : "disband"}` : ""}.`;
  }

  select(place, quiet = false, chosen = false) {
    this.unit = place;
    this.isChosen = chosen;
    this.helped = this.few = null;
    this.mode = "move";
    if (quiet) return;
    this.drawUnits();
    this.drawChoices();
    this.mark();
  }

  setMode(mode) {
    this.mode = mode;
    this.helped = this.few = null;
    this.drawChoices();
    this.mark();
  }

  drawUnits() {
    const focused = document.activeElement?.dataset?.unit;
    renew(byId("units"), [this.decision, this.unit], () => this.unitRows());
    if (focused) byId("units").querySelector(`[data-unit="${focused}"]`)?.focus({ preventScroll: true });
  }

  unitRows() {
    const rows = this.decision.places.map((place) => {
      const item = document.createElement("li");
      const order = this.orderOf(place);
      const name = this.unitName(place);
      const button = this.button("", () => {
        this.select(place, false, true);
      });
      button.className = "unit-row";
      button.dataset.unit = place;
      button.setAttribute("aria-pressed", this.unit === place);
      const given = document.createElement("span");
      given.className = order ? "given" : "open";
      given.textContent = order ? (order.startsWith(name) ? order.slice(name.length).trim() : order) : this.isFull() ? "" : "no order";
      button.setAttribute("aria-label", order ? spoken(order, this.names) : `${name}, ${this.names[place] ?? ""}: no order yet`);
      button.append(name, given);
      item.append(button);
      if (order) item.append(this.away(order));
      return item;
    });
    const waived = this.decision.orders.filter((order) => order === "WAIVE");
    for (const order of waived) {
      const item = document.createElement("li");
      const row = document.createElement("span");
      row.className = "unit-row given";
      row.textContent = "WAIVE: no build";
      item.append(row, this.away(order));
      rows.push(item);
    }
    return rows;
  }

  away(order) {
    const button = this.button("\u00d7", () => this.change("remove", { order }), `Take back: ${spoken(order, this.names)}`);
    button.className = "away";
    return button;
  }

  drawChoices() {
    renew(byId("choices-list"), [this.decision, this.unit, this.few], () => this.choiceGroups());
    for (const button of byId("modes").children) button.setAttribute("aria-pressed", button.dataset.mode === this.mode);
  }

  choiceGroups() {
    const legal = this.few ?? (this.unit ? this.decision.legal[this.unit] ?? [] : []);
    if (this.isFull()) {
      byId("choices-title").textContent = "All are ordered";
      return [];
    }
    const title = this.few ? "Which of these?" : this.unit ? `Orders for ${this.unitName(this.unit)}, ${this.names[this.unit] ?? ""}` : this.firstOpen() ? "Choose a unit" : "All have orders. Give them, or choose one to change it.";
    byId("choices-title").textContent = title;
    const parts = [];
    for (const [name, belongs] of GROUPS) {
      const orders = legal.filter((order) => belongs(order.split(" ")));
      if (!orders.length) continue;
      const group = document.createElement("div");
      group.className = "choice-group";
      group.append(...orders.map((order) => this.choice(order)));
      if (OPEN.has(name) || this.few || orders.length + legal.length < 14) {
        parts.push(group);
        continue;
      }
      const details = document.createElement("details");
      const summary = document.createElement("summary");
      summary.textContent = `${name} (${orders.length})`;
      details.append(summary, group);
      parts.push(details);
    }
    if (this.decision.owed > 0) {
      const group = document.createElement("div");
      group.className = "choice-group";
      group.append(this.choice("WAIVE"));
      parts.push(group);
    }
    return parts;
  }

  choice(order) {
    const button = this.button(order, () => this.enter(order, true), spoken(order, this.names));
    button.dataset.order = order;
    button.setAttribute("aria-pressed", this.decision.orders.includes(order));
    return button;
  }

  async enter(order, fromList = false) {
    const done = await this.change("enter", { order });
    if (!done || !this.decision) return;
    this.select(this.firstOpen() ?? this.unit);
    if (fromList) (byId("units").querySelector("[aria-pressed=true]") ?? byId("submit")).focus({ preventScroll: true });
  }

  // What a click on a place would give: orders to enter or to choose from.
  meant(place) {
    const at = (order, word) => province(order.split(" ")[word]) === province(place);
    const legal = this.decision.legal[this.unit] ?? [];
    if (this.mode === "move") {
      if (province(place) === province(this.unit)) return legal.filter((order) => /^. \S+ (H|D|B)$/.test(order));
      return legal.filter((order) => /^. \S+ [-R] /.test(order) && at(order, 3));
    }
    const letter = this.mode === "support" ? "S" : "C";
    const helps = legal.filter((order) => order.split(" ")[2] === letter);
    if (!this.helped) return helps.filter((order) => at(order, 4));
    const of = helps.filter((order) => order.split(" ").slice(3, 5).join(" ") === this.helped);
    if (province(place) === province(this.helped.slice(2))) return of.filter((order) => order.split(" ").length === 5);
    const goals = of.filter((order) => order.split(" ").length > 5 && at(order, 6));
    const plain = goals.filter((order) => !order.split(" ")[6].includes("/"));
    return plain.length ? plain : goals; // a support need not name the coast
  }

  clicked(place) {
    if (!this.decision) return;
    const own = this.decision.places.find((each) => each === place || province(each) === province(place));
    if (this.decision.kind === "A") {
      if (!own) return;
      this.unit = own;
      const ordered = this.orderOf(own);
      if (ordered) return void this.change("remove", { order: ordered });
      return this.take(this.decision.legal[own]);
    }
    if (!this.unit || !this.isChosen) {
      if (own) return this.select(own, false, true);
      if (!this.unit) return;
    }
    let found = this.meant(place);
    if (!found.length && this.mode === "move") {
      this.mode = "support"; // a unit that cannot be attacked may be helped
      found = this.meant(place);
      if (!found.length) this.mode = "move";
    }
    if (!found.length) return own && !this.helped ? this.select(own, false, true) : this.setMode(this.mode);
    if (this.mode !== "move" && !this.helped) {
      this.helped = found[0].split(" ").slice(3, 5).join(" ");
      if (found.length > 1) {
        this.few = found;
        this.drawChoices();
        return this.mark();
      }
    }
    this.take(found);
  }

  take(orders) {
    if (orders.length === 1) return void this.enter(orders[0]);
    this.few = orders;
    this.drawUnits();
    this.drawChoices();
    this.mark();
    byId("choices-list").querySelector("button")?.focus();
  }

  mark() {
    const targets = new Set();
    if (this.decision?.kind === "A" || (this.decision && !this.unit)) for (const place of this.decision.places) targets.add(province(place));
    else if (this.decision) for (const place of Object.keys(this.names)) if (this.meant(place).length) targets.add(province(place));
    this.marked(targets, this.unit, this.helped?.slice(2));
  }
}
