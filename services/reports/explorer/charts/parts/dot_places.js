"use strict";
// Where dots stand, as a scatter or in columns of groups, and which dot is next to a point or to another dot.
const DOT_SIZE = 8; // pixels, where a point names none
const ALL_ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// The place [x, y] (pixels) of each point; null for a point without a value or without a group of these.
function dotPlaces({ points, layout, groups }, axes, columns) {
  const known = ({ x, y }) => Number.isFinite(x) && Number.isFinite(y);
  if (layout === "scatter") {
    return points.map((point) => (known(point) ? [axes.xScale(point.x), axes.yScale(point.y)] : null));
  }
  const columnOf = new Map(groups.map((group, column) => [group.name, column]));
  const members = groups.map(() => []);
  for (const [place, point] of points.entries()) {
    if (columnOf.has(point.group) && Number.isFinite(point.y)) members[columnOf.get(point.group)].push(place);
  }
  const places = new Array(points.length).fill(null);
  for (const [column, inside] of members.entries()) {
    const size = inside.reduce((largest, place) => Math.max(largest, points[place].size ?? DOT_SIZE), 0);
    const heights = inside.map((place) => axes.yScale(points[place].y));
    const offsets = swarmOffsets(heights, size + 1, Math.max(0, columns.width * LANE_SHARE - size / 2));
    for (const [order, place] of inside.entries()) {
      places[place] = [columns.centers[column] + offsets[order], heights[order]];
    }
  }
  return places;
}

// Offsets to the side, at most ``reach``, that keep dots at these heights ``distance`` apart, or as far as they can be.
function swarmOffsets(heights, distance, reach) {
  const order = heights.map((_, dot) => dot).sort((a, b) => heights[a] - heights[b]);
  for (let apart = distance; apart >= 0.5; apart *= 0.8) {
    const offsets = offsetsInLanes(heights, order, apart, reach, false);
    if (offsets !== null) return offsets;
  }
  return offsetsInLanes(heights, order, 0.5, reach, true);
}

// From one end to the other, each dot takes the lane nearest to the middle that is free at its height; null if none is,
// unless ``crowded``, when it takes the lane that was free first.
function offsetsInLanes(heights, order, apart, reach, crowded) {
  const lanes = 2 * Math.floor(reach / apart) + 1;
  const lastHeight = new Array(lanes).fill(-Infinity);
  const offsets = new Array(heights.length);
  for (const dot of order) {
    let lane = lastHeight.findIndex((last) => heights[dot] - last >= apart);
    if (lane < 0 && !crowded) return null;
    if (lane < 0) lane = lastHeight.indexOf(Math.min(...lastHeight));
    lastHeight[lane] = heights[dot];
    offsets[dot] = Math.ceil(lane / 2) * apart * (lane % 2 ? 1 : -1);
  }
  return offsets;
}

// The nearest dot within ``reach`` pixels of a point; -1 if there is none.
function dotNear(places, [x, y], reach) {
  let nearest = -1;
  let best = reach;
  for (const [dot, place] of places.entries()) {
    if (place === null) continue;
    const distance = Math.hypot(place[0] - x, place[1] - y);
    if (distance > best) continue;
    best = distance;
    nearest = dot;
  }
  return nearest;
}

// The nearest dot in an arrow's quarter of the plane, or the same dot. Up and Down also walk through dots at one place.
function dotTowards(places, from, key) {
  const [right, down] = ALL_ARROWS[key];
  let nearest = from;
  let best = Infinity;
  for (const [dot, place] of places.entries()) {
    if (place === null || dot === from) continue;
    const [dx, dy] = [place[0] - places[from][0], place[1] - places[from][1]];
    const distance = Math.hypot(dx, dy);
    const [along, across] = [dx * right + dy * down, dx * down + dy * right];
    const inside = distance < 0.5 ? (dot - from) * down > 0 : along >= Math.abs(across);
    const order = distance < 0.5 ? Math.abs(dot - from) * 1e-6 : distance;
    if (!inside || order >= best) continue;
    best = order;
    nearest = dot;
  }
  return nearest;
}

// The first or last dot from left to right; -1 if no dot is shown.
function dotAtEnd(places, last) {
  let found = -1;
  for (const [dot, place] of places.entries()) {
    if (place === null) continue;
    if (found < 0 || (last ? place[0] > places[found][0] : place[0] < places[found][0])) found = dot;
  }
  return found;
}
