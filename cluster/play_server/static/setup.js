// The dialog in which a new game is set up.
import { titled } from "./board.js";
import { element, playerSelect, swatch } from "./panels.js";

const byId = (id) => document.getElementById(id);

export class Setup {
  constructor(begin) {
    byId("setup-cancel").addEventListener("click", () => byId("setup").close());
    byId("setup-you").addEventListener("change", () => this.spread());
    byId("setup-others").addEventListener("change", () => this.spread());
    byId("setup-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const seats = Object.fromEntries([...this.seats].map(([power, select]) => [power, select.value]));
      const body = { seats, until: byId("setup-until").value.trim(), seed: Number(byId("setup-seed").value), name: byId("setup-name").value.trim() };
      begin(body).then((done) => done && byId("setup").close());
    });
  }

  open(session) {
    this.session = session;
    const { seats, until, seed } = session.defaults;
    const you = session.powers.find((power) => seats[power] === session.person);
    const other = session.powers.map((power) => seats[power]).find((player) => player !== session.person);
    byId("setup-you").replaceChildren(new Option("no country: watch", ""), ...session.powers.map((power) => new Option(titled(power), power)));
    byId("setup-you").value = you ?? "FRANCE";
    byId("setup-others").replaceChildren(...playerSelect(session, other, "All others").children);
    byId("setup-others").value = other ?? session.players[0].name;
    this.seats = new Map(session.powers.map((power) => [power, playerSelect(session, seats[power], `Player of ${titled(power)}`)]));
    byId("setup-seats").replaceChildren(...session.powers.map((power) => {
      const row = element("tr");
      const head = element("th");
      head.scope = "row";
      head.append(swatch(power), titled(power));
      const cell = element("td");
      cell.append(this.seats.get(power));
      row.append(head, cell);
      return row;
    }));
    byId("setup-until").value = until;
    byId("setup-seed").value = seed;
    byId("setup-name").value = "";
    if (!you) this.spread();
    byId("setup").showModal();
  }

  spread() {
    for (const [power, select] of this.seats) {
      select.value = power === byId("setup-you").value ? this.session.person : byId("setup-others").value;
    }
  }
}
