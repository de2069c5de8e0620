"use strict";
// SVG nodes that glide to new places together. (A CSS transition of each of thousands of nodes takes seconds a frame.)
const GLIDE_MS = 600;

function makeMover() {
  const standing = new WeakMap(); // node -> [x, y], as drawn now
  let frame = null;

  function stand(node, place) {
    if (!standing.has(node)) node.setAttribute("transform", "translate(0 0)");
    node.transform.baseVal.getItem(0).setTranslate(...place);
    standing.set(node, place);
  }

  // Bring nodes to their places: a Map from node to [x, y] in pixels. A new node is there at once, and so are all
  // unless ``glides``. Nodes that are still gliding go on from where they are.
  function move(places, glides) {
    cancelAnimationFrame(frame);
    const moves = [];
    for (const [node, to] of places) {
      const from = standing.get(node);
      if (!glides || from === undefined) stand(node, to);
      else if (from[0] !== to[0] || from[1] !== to[1]) moves.push({ node, from, to });
    }
    if (moves.length) glide(moves, performance.now());
  }

  function glide(moves, start) {
    frame = requestAnimationFrame((now) => {
      const part = clampedTo((now - start) / GLIDE_MS, 0, 1);
      const eased = part * part * (3 - 2 * part);
      for (const { node, from, to } of moves) {
        stand(node, part === 1 ? to : [from[0] + (to[0] - from[0]) * eased, from[1] + (to[1] - from[1]) * eased]);
      }
      if (part < 1) glide(moves, start);
    });
  }

  return { move };
}
