"use strict";
// Mistakes of group-relative training as small experiments. They use the page's own arithmetic.

function pitfallsView() {
  return [
    element("p", { class: "lead" }, "Six mistakes that are easy to make and hard to see. Move the sliders."),
    element("div", { class: "two" }, ...[
      nearlyConstantGroup, ownSampleInBaseline, longGamesWeighMore, outcomeGroups, mixedRoles, clippingIsOneSided,
    ].map((experiment) => experiment())),
  ];
}

// A card whose result is drawn again when one of its controls changes. ``controls``: { name: { label, values, value } }.
function experiment(title, text, controls, draw) {
  const values = Object.fromEntries(Object.entries(controls).map(([name, { value }]) => [name, value]));
  const place = element("div", { "aria-live": "polite" });
  const redraw = () => place.replaceChildren(...draw(values));
  const made = Object.entries(controls).map(([name, { label, values: all, options }]) => {
    const onChange = (value) => {
      values[name] = value;
      redraw();
    };
    if (options) return dropdown(label, options.map((value) => ({ value, label: value })), values[name], onChange);
    const control = slider(label, all, values[name], onChange);
    const input = control.querySelector("input");
    input.addEventListener("input", () => onChange(all[input.value]));
    return control;
  });
  redraw();
  return element("section", { class: "card padded experiment" }, element("h3", {}, title), element("p", {}, text),
    element("div", { class: "controls" }, ...made), place);
}

const advantagesOf = (groupsOfReturns, scale, leaveOneOut = false) => {
  const returns = groupsOfReturns.flat().map(Math.fround);
  let next = 0;
  const groups = groupsOfReturns.map((own, index) => {
    const members = own.map(() => next++);
    return { key: [`group ${index + 1}`], level: "example", members, decided: members };
  });
  const owners = [...returns.keys()];
  return groupAdvantages(returns, groups, {}, { scale, leaveOneOut, owners, shrunk: null }).advantages;
};

function nearlyConstantGroup() {
  return experiment("A group that says nothing shouts",
    "Four games of a lively group, and four whose returns hardly differ. Dividing by each group's own deviation makes " +
      "the noise of the second as loud as the signal of the first.",
    { spread: { label: "Spread of the quiet group", values: [0, 0.01, 0.05, 0.2, 1, 4], value: 0.05 },
      scale: { label: "Divide by the deviation of", options: ["group", "batch", "none"], value: "group" } },
    ({ spread, scale }) => {
      const quiet = [0, 1, 2, 3].map((place) => 5 + (spread * (place - 1.5)) / 1.5);
      const advantages = advantagesOf([[1, 3, 6, 9], quiet], scale);
      const items = advantages.map((value, place) => ({
        name: place < 4 ? `lively ${place + 1}` : `quiet ${place - 3}`, value,
        color: place < 4 ? "var(--line-FRANCE)" : "var(--line-TURKEY)",
      }));
      const [lively, loud] = [items.slice(0, 4), items.slice(4)].map((part) => sumOf(part.map(({ value }) =>
        Math.abs(value))));
      return [bars({ items, unit: "" }), element("p", { class: "headline" }, `The quiet group has ${percent(loud /
        (loud + lively || 1))} of the pull.`)];
    });
}

function ownSampleInBaseline() {
  return experiment("A sample in its own baseline",
    "The mean of a group holds a part of the very return it is compared with, so every advantage is only " +
      "(n − 1) / n of what it should be. Leaving the sample out removes that.",
    { size: { label: "Episodes in the group", values: [2, 3, 4, 8, 16, 32], value: 4 } },
    ({ size }) => {
      const returns = Array.from({ length: size }, (_, place) => (place === 0 ? 10 : 0));
      const items = [["group's mean", false], ["leave one out", true]].map(([name, left]) => ({
        name, value: advantagesOf([returns], "none", left)[0], color: left ? "var(--accent)" : "var(--soft)",
      }));
      return [bars({ items, unit: "" }), element("p", { class: "headline" }, `One game earned 10, the others 0. Its ` +
        `advantage is ${formatNumber(items[0].value)} in place of ${formatNumber(items[1].value)}: ${percent(
          items[0].value / items[1].value)} of it.`)];
    });
}

function longGamesWeighMore() {
  return experiment("Long games weigh more",
    "Two episodes with the same advantage, one longer. The normaliser says how much of the loss each has.",
    { length: { label: "Turns of the longer game", values: [5, 10, 20, 50, 100], value: 20 },
      normalizer: { label: "Normaliser", options: ["token", "turn", "episode", "max_completion_length"], value: "token" } },
    ({ length, normalizer }) => {
      const tokens = [...new Array(5).fill(12), ...new Array(length).fill(12)];
      const owners = tokens.map((_, turn) => (turn < 5 ? 0 : 1));
      const weights = turnTokenWeights(normalizer, tokens, owners, { maxCompletionLength: 40, batchTokensPerStep: 1 });
      const shares = [0, 1].map((owner) => sumOf(weights.map((weight, turn) => (owners[turn] === owner ? weight *
        tokens[turn] : 0))));
      const total = sumOf(shares);
      const items = shares.map((share, owner) => ({ name: owner ? `${length} turns` : "5 turns", value: share / total,
        color: owner ? "var(--line-ENGLAND)" : "var(--line-FRANCE)" }));
      return [bars({ items, unit: "" }), element("p", { class: "headline" }, `The longer game has ${percent(
        items[1].value)} of the loss.`), element("p", { class: "soft" }, NORMALIZER_TEXTS[normalizer])];
    });
}

// Numbers from 0 to 1 that are the same on every visit.
function seededNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function outcomeGroups() {
  return experiment("Groups made from outcomes",
    "Two hundred games with a hidden quality of play and luck. Sorted by their return into groups, good games are " +
      "compared with good games, and the advantage no longer tells good play from bad.",
    { groups: { label: "Groups by return", values: [1, 2, 4, 8, 16], value: 4 } },
    ({ groups }) => {
      const random = seededNumbers(7);
      const games = Array.from({ length: 200 }, () => ({ quality: random(), luck: random() }));
      const sorted = games.map(({ quality, luck }) => ({ quality, value: quality + luck })).sort((left, right) =>
        left.value - right.value);
      const size = sorted.length / groups;
      const parts = Array.from({ length: groups }, (_, group) => sorted.slice(Math.round(group * size),
        Math.round((group + 1) * size)));
      const keptOf = (made) => slopeOn(advantagesOf(made.map((part) => part.map(({ value }) => value)), "none"),
        made.flat().map(({ quality }) => quality));
      const kept = keptOf(parts) / keptOf([sorted]);
      const items = [{ name: "one group", value: 100, color: "var(--soft)" },
        { name: groups === 1 ? "1 group by return" : `${groups} groups by return`, value: 100 * kept, color: "var(--accent)" }];
      return [bars({ items, unit: "%" }),
        element("p", { class: "headline" }, `A game of better play earns ${percent(kept)} of the advantage that it ` +
          "has against all games.")];
    });
}

// How much the advantage rises with the quality of play: 1 without groups.
function slopeOn(values, causes) {
  const mean = meanOf(causes);
  const centred = causes.map((cause) => cause - mean);
  return sumOf(values.map((value, place) => value * centred[place])) / sumOfSquares(centred);
}

function mixedRoles() {
  return experiment("A baseline that mixes roles",
    "A strong and a weak role play equally well for what they are. With one mean for both, the strong role's moves are " +
      "praised and the weak role's blamed, whatever they do.",
    { gap: { label: "What the strong role earns more", values: [0, 1, 2, 4, 8], value: 4 } },
    ({ gap }) => {
      const weak = [1, 2, 3, 4];
      const strong = weak.map((value) => value + gap);
      const mixed = advantagesOf([[...weak, ...strong]], "none");
      const apart = advantagesOf([weak, strong], "none");
      const wrong = mixed.filter((value, place) => value * apart[place] < 0).length;
      const items = mixed.map((value, place) => ({ name: `${place < 4 ? "weak" : "strong"} ${(place % 4) + 1}`, value,
        color: place < 4 ? "var(--line-AUSTRIA)" : "var(--line-ITALY)" }));
      return [bars({ items, unit: "" }), element("p", { class: "headline" }, `${wrong} of 8 games have the wrong sign.`)];
    });
}

function clippingIsOneSided() {
  return experiment("Clipping is one-sided",
    "The surrogate stops only the side that would go further: a good token that became likelier, a bad one that became " +
      "rarer. The other side has no bound, unless there is a dual clip.",
    { epsilon: { label: "Lower range", values: [0.05, 0.1, 0.2, 0.4], value: 0.2 },
      high: { label: "Upper range", values: [0.05, 0.1, 0.2, 0.28, 0.4], value: 0.28 },
      dual: { label: "Dual clip", options: ["off", "2", "3"], value: "off" } },
    ({ epsilon, high, dual }) => {
      const bounds = [1 - epsilon, 1 + high, ...(dual === "off" ? [] : [Number(dual)])]; // corners of the lines
      const grid = Array.from({ length: 81 }, (_, place) => place / 20);
      const x = [...new Set([...grid, ...bounds])].sort((left, right) => left - right);
      const settings = { epsilon, epsilon_high: high, delta: dual === "off" ? null : Number(dual) };
      const line = (advantage) => x.map((ratio) => -clippedSurrogate(Math.log(Math.max(ratio, 1e-9)), advantage,
        settings).value);
      const series = [{ name: "good token (A = 1)", values: line(1), color: "var(--line-FRANCE)" },
        { name: "bad token (A = −1)", values: line(-1), color: "var(--line-AUSTRIA)" }];
      return [lineChart({ x, series, xTitle: "importance ratio", yTitle: "objective", selected: null, onSelect: () => {} }),
        element("p", { class: "soft" }, "Where a line is flat, the token has no gradient.")];
    });
}
