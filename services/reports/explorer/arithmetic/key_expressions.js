"use strict";
// Key expressions join facts by "+", such as "country+phase"; "start_year:4" puts a number into 4 quantile bins.
const FORK_FACT = "fork"; // the saved position that an episode continues from, which not all have
const CLUSTER_FACTS = ["auto", "adaptive", "dirichlet"];
const OUTCOME_FACTS = new Set([
  ...["return", "return_quartile", "reward", "length", "outcome", "centers"],
  ...["solo", "draw", "top", "survived", "final_year", "phases", "defective_orders"],
]);

// The facts of an expression, each with its name and its bins, or null without bins. ``turnFacts`` names those that
// change within an episode.
function parseExpression(expression, roleName, allowOutcomes, turnFacts) {
  const facts = expression.split("+").map((part) => nameAndBins(part.trim()));
  const names = facts.map(({ name }) => name);
  if (!names.every(Boolean) || new Set(names).size < names.length) {
    throw new Error(`The key expression ${expression} has an empty or repeated fact.`);
  }
  if (!facts.some(({ name, bins }) => name === roleName && bins === null)) {
    throw new Error(`The key expression ${expression} would mix roles in one baseline, so add ${roleName} to it.`);
  }
  if (allowOutcomes) return facts;
  const outcome = names.find((name) => OUTCOME_FACTS.has(name));
  if (outcome !== undefined) {
    throw new Error(`The key expression ${expression} uses ${outcome}, which is known only after the actions.`);
  }
  const changing = facts.find(({ name, bins }) => bins !== null && turnFacts.has(name));
  if (changing !== undefined) {
    throw new Error(`The key expression ${expression} bins ${changing.name}, which changes within an episode.`);
  }
  return facts;
}

function nameAndBins(fact) {
  const colon = fact.indexOf(":");
  if (colon < 0) return { name: fact, bins: null };
  const name = fact.slice(0, colon).trim();
  const bins = fact.slice(colon + 1).trim();
  if (CLUSTER_FACTS.includes(name)) throw new Error(`The clusters ${name} have no bins, so leave out the number.`);
  if (!/^\d+$/.test(bins) || Number(bins) < 2) throw new Error(`The fact ${fact} does not say how many quantile bins.`);
  return { name, bins: Number(bins) };
}

// A fact as part of a group's key: a whole number as such, and another number as Python writes it.
function asKey(value) {
  if (typeof value !== "number" || Number.isInteger(value)) return value;
  if (Math.abs(value) >= 1e-4) return String(value);
  return value.toExponential().replace(/e-(\d)$/, "e-0$1");
}

// A part of a key as text; a large whole number has all its digits.
function keyText(value) {
  return Number.isInteger(value) ? BigInt(value).toString() : value;
}
