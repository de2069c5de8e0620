// The panels beside the map: who plays, what was ordered, and hints.
import { renew, spoken, titled } from "./board.js";

const byId = (id) => document.getElementById(id);
const STATES = { person: "\u270e", opening: "\u21bb", thinking: "\u2026", ready: "\u2713", failed: "!" };
const STATE_WORDS = { person: "to decide", opening: "being opened", thinking: "thinking", ready: "has answered", failed: "did not answer" };

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function swatch(power) {
  const made = element("span", "swatch");
  made.style.background = `var(--line-${power})`;
  return made;
}

// A list of all players; a name that the server does not have now stays visible.
export function playerSelect(session, chosen, label, people = true) {
  const made = element("select");
  made.setAttribute("aria-label", label);
  const kinds = { person: "At this page", bot: "Bots", policy: "Policies", remote: "Remote" };
  const known = [...(people ? [{ name: session.person, kind: "person" }] : []), ...session.players];
  if (chosen && !known.some((player) => player.name === chosen)) known.push({ name: chosen, kind: "remote" });
  for (const [kind, title] of Object.entries(kinds)) {
    const group = element("optgroup");
    group.label = title;
    for (const player of known) {
      if (player.kind === kind) group.append(new Option(player.name === session.person ? "person (you)" : player.name, player.name));
    }
    if (group.children.length) made.append(group);
  }
  made.value = chosen;
  return made;
}

export class Players {
  constructor(changed) {
    this.changed = changed; // (power, player)
    this.rows = new Map();
  }

  // `answers` are those of the present phase, or null for a past one, where `players` tells who decided.
  show(session, phase, seats, answers, players) {
    const names = JSON.stringify([session.players, seats]);
    if (names !== this.names || !this.rows.size) this.build(session, seats);
    this.names = names;
    const centers = (power) => phase.centers[power].length;
    const most = Math.max(...session.powers.map(centers), 1);
    const order = [...session.powers].sort((a, b) => centers(b) - centers(a) || a.localeCompare(b));
    const body = byId("players");
    if ([...body.children].map((row) => row.dataset.power).join() !== order.join() && !body.contains(document.activeElement)) {
      body.replaceChildren(...order.map((power) => this.rows.get(power).row));
    }
    for (const power of session.powers) {
      const { row, state, select, past, bar, count } = this.rows.get(power);
      const answer = answers?.[power];
      state.textContent = answer ? STATES[answer.state] : "";
      state.title = answer ? STATE_WORDS[answer.state] : "";
      state.setAttribute("aria-label", state.title);
      select.hidden = answers === null;
      past.hidden = answers !== null;
      past.textContent = players[power] ?? "";
      count.textContent = centers(power);
      bar.style.width = `${(centers(power) / Math.max(most, 10)) * 70}px`;
      row.classList.toggle("gone", centers(power) === 0 && !phase.units[power].length);
    }
  }

  build(session, seats) {
    for (const power of session.powers) {
      const row = element("tr");
      row.dataset.power = power;
      const head = element("th");
      head.scope = "row";
      const state = element("span", "state");
      state.setAttribute("role", "img");
      head.append(swatch(power), titled(power), " ", state);
      const cell = element("td");
      const select = playerSelect(session, seats[power], `Player of ${titled(power)}`);
      select.addEventListener("change", () => this.changed(power, select.value));
      const past = element("span", "soft");
      cell.append(select, past);
      const figures = element("td");
      const bar = element("span", "bar");
      bar.style.background = `var(--line-${power})`;
      const count = element("span");
      figures.append(bar, count);
      row.append(head, cell, figures);
      this.rows.set(power, { row, state, select, past, bar, count });
    }
    byId("players").replaceChildren(...session.powers.map((power) => this.rows.get(power).row));
  }
}

const unitOf = (order) => order.split(" ").slice(0, 2).join(" ");
export const failed = (phase, order) => (phase.results[unitOf(order)] ?? []).length > 0;

// Orders of some phases with their results, by power; `title` names a phase.
export function showOrders(phases, title, powers, names) {
  byId("happened-title").textContent = phases.length === 1 ? `Orders of ${title(phases[0].phase)}` : phases.length ? "Last orders" : "Orders";
  renew(byId("happened"), phases, () => {
    if (!phases.length) return [element("p", "soft", "Nothing has been played yet.")];
    const heads = phases.length > 1;
    return phases.flatMap((phase) => [...(heads ? [element("h3", "of", title(phase.phase))] : []), ...orderLists(phase, powers, names)]);
  });
}

function orderLists(phase, powers, names) {
  const parts = powers.filter((power) => phase?.orders[power]?.length).map((power) => {
    const part = element("section");
    const head = element("h4");
    head.append(swatch(power), titled(power));
    const list = element("ul");
    for (const order of phase.orders[power]) {
      const item = element("li");
      const code = element("code", "", order);
      code.title = spoken(order, names);
      item.append(code, element("span", "result", (phase.results[unitOf(order)] ?? []).join(", ")));
      list.append(item);
    }
    part.append(head, list);
    return part;
  });
  return parts.length ? parts : [element("p", "soft", "No orders in this phase.")];
}

export class Hints {
  constructor(ask, take) {
    this.ask = ask; // (player) => promise of {note, sheets}
    this.take = take; // (orders)
    this.key = "";
    byId("ask").addEventListener("click", () => this.fill());
    byId("hint-player").addEventListener("change", () => this.clear());
  }

  clear() {
    byId("hint-list").replaceChildren();
    byId("hint-note").textContent = "";
  }

  show(session, key) {
    const names = session.players.map((player) => player.name).join("\n");
    if (names !== this.names) {
      const chosen = byId("hint-player").value;
      const first = session.players.find((player) => player.kind === "policy") ?? session.players[0];
      const made = playerSelect(session, chosen || first?.name, "Player", false);
      byId("hint-player").replaceChildren(...made.children);
      byId("hint-player").value = chosen || first?.name;
      this.names = names;
    }
    if (key !== this.key) this.clear();
    this.key = key;
  }

  async fill() {
    const key = this.key;
    byId("hint-note").textContent = "One moment.";
    byId("hint-list").replaceChildren();
    const found = await this.ask(byId("hint-player").value);
    if (key !== this.key) return;
    byId("hint-note").textContent = found ? found.note : "";
    byId("hint-list").replaceChildren(...(found?.sheets ?? []).map((sheet) => {
      const item = element("li");
      const share = element("strong", "", `${(100 * sheet.probability).toFixed(sheet.probability < 0.1 ? 1 : 0)} % `);
      const meter = element("meter");
      meter.max = found.sheets[0].probability;
      meter.value = sheet.probability;
      meter.setAttribute("aria-hidden", "true");
      const use = element("button", "", "Enter these");
      use.type = "button";
      use.addEventListener("click", () => this.take(sheet.orders));
      item.append(share, meter, " ", use, ...sheet.orders.map((order) => element("code", "", order)));
      return item;
    }));
  }
}
