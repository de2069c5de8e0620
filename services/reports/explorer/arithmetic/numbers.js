"use strict";
// Arithmetic that the other scripts need. Sums add in numpy's order, so that results agree with Python's to the last
// bit: a rounded sum that differs a little would turn into another float32, or into a deviation where there is none.
const PAIRWISE_BLOCK = 128; // the most numbers that numpy adds without halving their row

function sumOf(values, start = 0, count = values.length) {
  if (count > PAIRWISE_BLOCK) {
    const half = Math.floor(count / 16) * 8;
    return sumOf(values, start, half) + sumOf(values, start + half, count - half);
  }
  let total = 0;
  let next = start;
  const end = start + count;
  if (count >= 8) {
    const partial = values.slice(start, start + 8);
    for (next = start + 8; next + 8 <= end; next += 8) {
      for (let lane = 0; lane < 8; lane += 1) partial[lane] += values[next + lane];
    }
    const [a, b, c, d, e, f, g, h] = partial;
    total = a + b + (c + d) + (e + f + (g + h));
  }
  for (; next < end; next += 1) total += values[next];
  return total;
}

const meanOf = (values) => sumOf(values) / values.length;

const sumOfSquares = (values) => sumOf(values.map((value) => value * value));

// The squared distances from the mean over the count less ``removed``: 1 for Bessel's correction.
function varianceOf(values, removed = 0) {
  const mean = meanOf(values);
  return sumOfSquares(values.map((value) => value - mean)) / (values.length - removed);
}

const lowestOf = (values) => values.reduce((lowest, value) => Math.min(lowest, value), Infinity);

const highestOf = (values) => values.reduce((highest, value) => Math.max(highest, value), -Infinity);

const areAllEqual = (values) => values.every((value) => value === values[0]);

const boundedTo = (value, lowest, highest) => Math.min(Math.max(value, lowest), highest);

const pick = (values, places) => places.map((place) => values[place]);

// The values added up by label, in their order; ``labels`` are whole numbers from 0.
function sumsByLabel(labels, values) {
  const sums = new Array(Math.max(highestOf(labels) + 1, 0)).fill(0);
  for (let place = 0; place < labels.length; place += 1) sums[labels[place]] += values[place];
  return sums;
}

const countsByLabel = (labels) => sumsByLabel(labels, labels.map(() => 1));

// Numbers from 0 for the distinct values, in order of the first of each.
function numbered(values) {
  const numbers = new Map();
  return values.map((value) => {
    if (!numbers.has(value)) numbers.set(value, numbers.size);
    return numbers.get(value);
  });
}

// The places of each distinct value, in order of the first of each.
function placesByValue(values) {
  const places = new Map();
  values.forEach((value, place) => {
    if (!places.has(value)) places.set(value, []);
    places.get(value).push(place);
  });
  return places;
}

// The value that a record holds under a name, and nothing for names that every object has.
const ownValue = (record, name) => (Object.hasOwn(record, name) ? record[name] : undefined);
