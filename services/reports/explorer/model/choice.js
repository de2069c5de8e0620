"use strict";
// What is chosen on the page. It is kept in the address, so that a link leads back to the same place.
const FIRST_CHOICE = {
  view: "start",
  run: 0, // index of the run
  update: null, // the version that the update made; null: the newest in detail
  group: null, // a group's name
  episode: null, // index into the update's episodes
  turn: null, // index into the update's turns
  token: null, // index into the turn's trained tokens
  pass: 0, // which of the turn's passes, where it had several
  role: null, // whose groups are drawn; null: that of the selection
  strategy: "trained",
  number: 4, // of groups, for clusters and bins
  fact: null, // the number that bins and boundaries divide, and the x axis of the dots
  cuts: null, // the boundaries drawn by hand, joined by "_"
  other: "none", // the strategy to compare with
  compare: false,
  formed: false, // whether the dots stand in their groups
  color: "advantage", // what colours the dots
  returns: null, // these seven: null as in training
  baseline: null,
  scale: null,
  shrinkage: null,
  weights: null,
  loss: null,
  normalizer: null,
  ablations: "", // names of switched-off parts of the loss, joined by "_"
  measure: null,
  groups_of: null, // whose groups the course shows; null: that of the chosen group, or the first
};
// The changes that make an update what the run made of it.
const AS_TRAINED = {
  strategy: "trained", returns: null, baseline: null, scale: null, shrinkage: null, weights: null, loss: null,
  normalizer: null, ablations: "",
};
// How clusters, bins and boundaries divide at first.
const FIRST_DIVISION = { number: FIRST_CHOICE.number, fact: FIRST_CHOICE.fact, cuts: FIRST_CHOICE.cuts };
// What these may be; an address with another value is read as if it lacked it.
const KNOWN_VALUES = {
  returns: ["episode", "per_phase", "segment"],
  baseline: ["mean", "leave_one_out"],
  scale: ["group", "batch", "none"],
  weights: ["none", "balanced", "performance", "adaptive"],
  loss: ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "rloo"],
  normalizer: ["auto", "token", "batch_token", "turn", "episode", "max_completion_length"],
};
const SELECTION = ["update", "group", "episode", "turn", "token"]; // each lies within the one before

function readChoice(address) {
  const given = new URLSearchParams(address.replace(/^#/, ""));
  const choice = { ...FIRST_CHOICE };
  for (const [name, text] of given) {
    if (Object.hasOwn(FIRST_CHOICE, name)) choice[name] = readValue(name, text);
  }
  return choice;
}

function readValue(name, text) {
  const first = FIRST_CHOICE[name];
  if (typeof first === "boolean" || name === "shrinkage") return text === "true";
  const counts = typeof first === "number" || ["update", "episode", "turn", "token"].includes(name);
  if (!counts) return isKnownValue(name, text) ? text : first;
  return /^\d{1,9}$/.test(text) && (name !== "number" || Number(text) > 0) ? Number(text) : first;
}

function isKnownValue(name, text) {
  if (name === "strategy" || name === "other") return STRATEGIES.some(({ id }) => id === text);
  if (name === "ablations") return text.split("_").every((part) => ABLATIONS.some(({ id }) => id === part));
  return KNOWN_VALUES[name]?.includes(text) ?? true;
}

// The address has what differs from the first choice.
function addressOf(choice) {
  const changed = Object.entries(choice).filter(([name, value]) => value !== FIRST_CHOICE[name] && value !== null);
  return `#${new URLSearchParams(changed.map(([name, value]) => [name, String(value)]))}`;
}

// A change of the selection drops what lay within the old one, unless the change names it too.
function changedChoice(choice, changes) {
  const next = { ...choice, ...changes };
  const depth = (name) => SELECTION.indexOf(name);
  const outermost = SELECTION.find((name) => name in changes && changes[name] !== choice[name]);
  if ("run" in changes && changes.run !== choice.run) {
    for (const name of [...SELECTION, "role", "fact", "cuts"]) if (!(name in changes)) next[name] = FIRST_CHOICE[name];
    return next;
  }
  if (outermost === undefined) return next;
  for (const name of SELECTION) {
    if (depth(name) > depth(outermost) && !(name in changes)) next[name] = null;
  }
  if (outermost !== "token" && !("pass" in changes)) next.pass = 0;
  return next;
}

const isWhatIf = (choice) => Object.entries(AS_TRAINED).some(([name, value]) => choice[name] !== value);
