"use strict";
// What the pages of games share: elements, names of phases and powers, and the map.
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const SEASONS = { S: "Spring", F: "Fall", W: "Winter" };
const KINDS = { M: "Movement", R: "Retreats", A: "Builds and disbands" };

function element(tag, className, ...inside) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...inside.filter((part) => part !== undefined && part !== null));
  return made;
}

function vector(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function title(phase) {
  const [, season, year, kind] = /^(.)(\d+)(.)$/.exec(phase) ?? [];
  return year ? [`${SEASONS[season] ?? season} ${year}`, KINDS[kind] ?? kind] : ["Final position", phase];
}

const placeName = (phase) => (phase === "COMPLETED" ? "end" : phase);
const titled = (power) => power.charAt(0) + power.slice(1).toLowerCase();

function swatch(power, colors) {
  const made = element("span", "swatch");
  made.style.background = colors[power] ?? "gray";
  return made;
}

// A map in ``host``. Its style sheet stays inside a shadow root, so that its class names do not reach the page.
function makeBoard(host, mapSvg) {
  const root = host.attachShadow({ mode: "open" });
  root.append(document.importNode(new DOMParser().parseFromString(mapSvg, "image/svg+xml").documentElement, true));
  root.querySelector("svg").style.cssText = "display:block;width:100%;height:auto;background:#c5dfea";
  const layer = (id) => root.getElementById(id);
  const shapes = new Map();
  for (const province of layer("MapLayer").children) {
    const parts = [province, ...province.children].filter((part) => part.matches("path, polygon"));
    const land = parts.filter((part) => part.getAttribute("class") !== "water");
    shapes.set(province.id, land.map((part) => [part, part.getAttribute("class")]));
  }
  const display = (ids, shown) => {
    for (const id of ids) layer(id).style.display = shown ? "" : "none";
  };
  display(["BriefLabelLayer"], false);
  return {
    draw(frame) {
      for (const parts of shapes.values()) for (const [part, plain] of parts) part.setAttribute("class", plain);
      for (const [power, ids] of Object.entries(frame.owners)) {
        for (const id of ids) for (const [part] of shapes.get(id) ?? []) part.setAttribute("class", power.toLowerCase());
      }
      for (const [id, inside] of Object.entries(frame.layers)) layer(id).innerHTML = inside;
      host.setAttribute("aria-label", `Map, ${title(frame.phase).join(", ")}`);
    },
    showOrders: (shown) => display(["OrderLayer", "HighestOrderLayer"], shown),
    showNames: (shown) => display(["BriefLabelLayer"], shown),
  };
}

function orderList(orders, different = () => false) {
  const list = element("ul");
  for (const [text, results] of orders) {
    const line = element("li", different(text) ? "different" : "", element("code", "", text));
    if (different(text)) line.append(element("span", "unseen", " (only in this game)"));
    line.append(element("span", "result", results.join(", ")));
    list.append(line);
  }
  return list;
}

const CAME_OF = { kept: "kept", broken: "broken", "": "nothing could break it" };

// The letters before a phase and the promises that bound in it: giver, partner, what, and what came of it. ``meanings``
// are sender, line and plain English for lines of letters in a compact language.
function drawPress(box, messages, promises = [], meanings = []) {
  box.hidden = messages.length + promises.length === 0;
  const who = (name) => (name === "GLOBAL" ? "all" : titled(name));
  const plain = new Map(meanings.map(([from, written, meant]) => [`${from}\n${written}`, meant]));
  const letter = (from, text) =>
    text.split("\n").flatMap((written, at) => {
      const meant = plain.get(`${from}\n${written.trim()}`);
      return [at ? `\n${written}` : written, meant && element("span", "soft", ` (${meant})`)];
    });
  const line = (from, to, ...inside) => element("p", "", element("b", "", `${who(from)} to ${who(to)}: `), ...inside);
  box.replaceChildren(
    ...(messages.length ? [element("h3", "", "Messages")] : []),
    ...messages.map(([from, to, text]) => line(from, to, ...letter(from, text))),
    ...(promises.length ? [element("h3", "", "Promises")] : []),
    ...promises.map(([from, to, what, cameOf]) => line(from, to, `${what} \u2013 `, element("span", `promise ${cameOf || "untested"}`, CAME_OF[cameOf]))),
  );
}
