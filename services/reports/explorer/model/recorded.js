"use strict";
// Recorded updates: unpacked when they are asked for, and put into the shape that the arithmetic takes.
const KEPT_TRACES = 6; // unpacked ones, the last that were asked for
const unpackedTraces = new Map();

// The versions of a run's updates in detail, ascending.
const detailedVersions = (run) => Object.keys(run.traces).map(Number).sort((left, right) => left - right);

// The version nearest to a wanted one; the newest where none is wanted.
function nearestVersion(run, wanted) {
  const versions = detailedVersions(run);
  if (versions.length === 0) return null;
  if (wanted === null) return versions[versions.length - 1];
  return versions.reduce((best, each) => (Math.abs(each - wanted) < Math.abs(best - wanted) ? each : best));
}

// A promise of a trace with ``batch`` added.
function traceOf(run, version) {
  const name = `${run.index}/${version}`;
  const found = unpackedTraces.get(name) ?? unpackTrace(run.traces[version]).then((trace) => completeTrace(run, trace));
  unpackedTraces.delete(name);
  unpackedTraces.set(name, found);
  for (const oldest of [...unpackedTraces.keys()].slice(0, -KEPT_TRACES)) unpackedTraces.delete(oldest);
  return found;
}

async function unpackTrace(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function completeTrace(run, trace) {
  const { episodes, turns } = trace;
  const firstTurn = [];
  let next = 0;
  for (const count of episodes.turns) {
    firstTurn.push(next);
    next += count;
  }
  const episodeOfTurn = episodes.turns.flatMap((count, episode) => new Array(count).fill(episode));
  const batch = {
    role_name: run.role_name,
    episodes,
    turns,
    running: trace.running,
    progress: trace.progress,
  };
  // The file has the shortest decimals that give each float32 again.
  for (const turn of trace.tokens) roundedToFloat32(turn);
  trace.advantages = trace.advantages.map(asFloat32);
  const recorded = new Map(trace.tokens.map((each) => [each.turn, each]));
  return { ...trace, batch, firstTurn, episodeOfTurn, recorded };
}

const asFloat32 = (value) => (value === null ? null : Math.fround(value));

function roundedToFloat32(turn) {
  turn.behaviour = turn.behaviour.map(asFloat32);
  for (const pass of turn.passes) {
    pass.weight = Math.fround(pass.weight);
    for (const name of ["logprobs", "entropy", "proximal", "reference"]) pass[name] = pass[name]?.map(asFloat32);
  }
}

// Turns of an episode, as indices into the update's turns.
function turnsOfEpisode(trace, episode) {
  const first = trace.firstTurn[episode];
  return Array.from({ length: trace.episodes.turns[episode] }, (_, place) => first + place);
}

// A fact of an episode or, where only its turns have it, of one of them; null where it is absent.
function recordedFact(trace, name, episode, turn) {
  const { episodes, turns } = trace.batch;
  return episodes.facts[name]?.[episode] ?? (turn === null ? null : (turns.facts[name]?.[turn] ?? null));
}

// Names of facts that are numbers and vary: { name, level: "episode" | "turn" | "outcome" }.
function numericFacts(trace) {
  const { episodes, turns } = trace.batch;
  const vary = (values) => values.every((value) => Number.isFinite(value)) && new Set(values).size > 1;
  const named = (facts, level) =>
    Object.entries(facts).filter(([, values]) => vary(values)).map(([name]) => ({ name, level }));
  const known = named(episodes.facts, "episode");
  const ofTurns = named(turns.facts, "turn").filter(({ name }) => !(name in episodes.facts));
  return [...known, ...ofTurns, ...named(episodes.outcome, "outcome")];
}
