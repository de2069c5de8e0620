"use strict";
// One decision in words and tables: why it was judged so, each unit's choice, and what the player had read.
const percent = (share) => (share >= 0.9995 ? "100" : (share * 100).toPrecision(share >= 0.0995 ? 3 : 2).replace(/e.*/, "")) + " %";
const shown = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString());
const small = (share) => (share > 0 && share < 0.0001 ? "< 0.01 %" : percent(share));

function figure(name, value, hint) {
  const made = element("div", "figure", element("dt", "", name), element("dd", "", value));
  if (hint) made.title = hint;
  return made;
}

function sheetFigures(decision) {
  const together = decision.choices.reduce((product, choice) => product * choice.probability, 1);
  const entropy = decision.choices.reduce((sum, choice) => sum + choice.entropy, 0);
  const figures = element("dl", "figures",
    figure("probability of these orders together", small(together)),
    figure("entropy of the choices", `${shown(entropy)} nats`, "0: the policy had no doubt. ln 2 = 0.69: as uncertain as a coin"));
  if (decision.temperature !== undefined) figures.append(figure("temperature", shown(decision.temperature)));
  return figures;
}

function verdict(judgement) {
  if (judgement.baseline === null) return "There was no baseline for it yet, so nothing was learned from it.";
  if (judgement.zero_variance) return "All returns of its group were equal, so nothing was learned from it.";
  const distance = Math.abs(judgement.value - judgement.baseline);
  if (judgement.advantage === 0) return "It returned what was expected, so nothing was learned from it.";
  const [compared, effect] = judgement.advantage > 0 ? ["more", "likelier"] : ["less", "less likely"];
  return `It returned ${shown(distance)} ${compared} than the baseline, so the update made it ${effect}.`;
}

function drawJudgement(judgement) {
  const running = judgement.level === "running";
  const against = running
    ? `Compared with the running mean of ${judgement.group}: its own groups in the update were too small.`
    : `Its group has ${judgement.size} decisions of the same ${judgement.level.replaceAll("+", ", ")}: ${judgement.group}.`;
  const figures = element("dl", "figures",
    figure("return", shown(judgement.value)),
    figure("baseline", judgement.baseline === null ? "none" : shown(judgement.baseline)),
    figure("advantage", (judgement.advantage > 0 ? "+" : "") + shown(judgement.advantage)));
  if (judgement.advantage !== 0) {
    const divisor = (judgement.value - judgement.baseline) / judgement.advantage;
    figures.append(figure("its divisor", shown(divisor), "The advantage is the return less the baseline, divided by this"));
  }
  if (judgement.std !== undefined && judgement.std !== null) figures.append(figure("spread of the returns", shown(judgement.std)));
  if (judgement.version) figures.append(figure("update", judgement.version));
  return element("section", "judgement", element("h3", "", "How the update judged it"), figures,
    element("p", "", `${verdict(judgement)} ${against}`));
}

function choiceRow(order, share, chosen) {
  const bar = element("span", "bar");
  bar.style.width = `${Math.max(0.5, share * 100)}%`;
  const name = element("th", "", element("code", "", order), chosen ? element("b", "mark", " \u2713 chosen") : null);
  name.scope = "row";
  return element("tr", chosen ? "chosen" : "", name, element("td", "share", small(share)), element("td", "bars", bar));
}

function drawChoice(choice, place) {
  const orders = choice.orders.some(([order]) => order === choice.chosen)
    ? choice.orders
    : [...choice.orders, [choice.chosen, choice.probability]];
  const forced = choice.orders.length === 1;
  const facts = forced ? "the only legal order" : `${small(choice.probability)}, entropy ${shown(choice.entropy)} nats`;
  const table = element("table", "", element("caption", "", element("b", "", `${place + 1}. ${choice.chosen}`), ` ${facts}`));
  if (forced) return table;
  const head = element("tr", "", ...["order", "probability", ""].map((name) => {
    const cell = element(name ? "th" : "td", "", name);
    if (name) cell.scope = "col";
    return cell;
  }));
  const body = element("tbody", "", ...orders.map(([order, share]) => choiceRow(order, share, order === choice.chosen)));
  const hidden = (choice.others ?? 0) - (orders.length - choice.orders.length);
  if (hidden > 0) {
    const rest = (choice.rest ?? 0) - (orders.length > choice.orders.length ? choice.probability : 0);
    body.append(choiceRow(`${hidden} other legal order${hidden > 1 ? "s" : ""}`, Math.max(0, rest), false));
  }
  table.append(element("thead", "", head), body);
  return table;
}

function folded(name, text) {
  const words = text.split(/\s+/).filter(Boolean).length;
  const box = element("pre", "", text);
  box.tabIndex = 0;
  return element("details", "", element("summary", "", `${name} (${words} words)`), box);
}

// Show the decision of ``power`` in ``phase`` of ``game``; returns whether there is one.
function drawDecision(host, game, phase, power) {
  const decision = game.decisions[phase]?.[power];
  if (!decision) {
    const text = power ? `${titled(power)} has no recorded decision in this phase.` : "";
    host.replaceChildren(element("p", "soft", text));
    return false;
  }
  const parts = [];
  if (decision.player) parts.push(element("p", "soft", `Decided by ${decision.player}.`));
  if (decision.judgement) parts.push(drawJudgement(decision.judgement));
  if (decision.note) parts.push(element("p", "soft", decision.note));
  if (decision.choices?.length) {
    parts.push(element("h3", "", "What it might have ordered"), sheetFigures(decision),
      element("div", "choices", ...decision.choices.map(drawChoice)));
  }
  const texts = [];
  if (decision.thought) texts.push(folded("What it thought", decision.thought));
  if (decision.prompt) texts.push(folded("What it read", decision.prompt.map((line) => game.lines[line]).join("\n")));
  host.replaceChildren(...parts, ...texts);
  return true;
}

// A list of the powers that have decisions; ``choose`` is called with the one that is picked.
function fillPowers(select, games, choose) {
  const powers = games[0].powers.filter((power) => games.some((game) => Object.values(game.decisions).some((each) => power in each)));
  select.replaceChildren(...powers.map((power) => new Option(titled(power), power)));
  select.addEventListener("change", () => choose(select.value));
  return powers;
}
