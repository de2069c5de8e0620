"use strict";
// Group formation: dots that lie in a plane, or stand in the columns of their groups, and move between both.
const DOT_REACH = 16; // pixels from a dot at which the pointer means it

// Options: points { id, x, y, color, shape, size (pixels), label, group (a group's name) }, xTitle, yTitle, layout
// ("scatter" or "groups"), groups { name, mean, note }, boundaries (ascending numbers on the x axis of the scatter),
// onBoundary(index, value, finished), selected (an id) and onSelect(id). ``update`` takes the options that change.
function dotField(options) {
  const chart = chartPlace("dots");
  const list = svgElement("g", { class: "chart-dot-list", role: "listbox", "aria-label": "Dots",
    tabindex: -1 }); // its dots have the focus
  const ring = svgElement("circle", { class: "chart-dot-ring", fill: "none" });
  const meanLayer = svgElement("g", { class: "chart-means", "aria-hidden": "true" });
  const handleLayer = svgElement("g", {});
  const missing = element("p", { class: "chart-missing soft", hidden: "" });
  chart.controls.append(list, ring, meanLayer, handleLayer);
  chart.node.append(missing);
  const handles = boundaryHandles(handleLayer, chart.svg);
  const mover = makeMover();
  const dots = new Map(); // id -> node
  let field = { points: [], groups: [], boundaries: [], layout: "scatter", ...options };
  let places = [];
  let active; // the id of the dot that Tab reaches
  let width = 0;

  function draw(moving) {
    if (width === 0) return;
    const { height, axes, columns, domain, drawing, means } = dotFrame(field, width);
    setChartSize(chart.svg, width, height);
    chart.drawing.replaceChildren(...drawing);
    meanLayer.replaceChildren(...means);
    places = dotPlaces(field, axes, columns);
    drawDots(moving && !reducedMotion());
    const { boundaries, xTitle, yTitle, layout } = field;
    const byX = layout === "scatter";
    handles.show(byX && domain ? { boundaries, axes, domain, xTitle, onBoundary: keepBoundary } : null);
    list.setAttribute("aria-label", [yTitle || "Dots", byX ? xTitle : "group"].filter(Boolean).join(" by "));
  }

  function keepBoundary(index, value, finished) {
    field.boundaries = field.boundaries.with(index, value);
    field.onBoundary?.(index, value, finished);
  }

  function drawDots(glides) {
    const focused = list.contains(document.activeElement);
    const unused = new Set(dots.keys());
    const targets = new Map();
    for (const [index, point] of field.points.entries()) {
      unused.delete(point.id);
      const dot = dots.get(point.id) ?? addDot(point.id);
      showDot(dot, point, field.selected === point.id);
      dot.style.display = places[index] === null ? "none" : "";
      if (places[index] !== null) targets.set(dot, places[index]);
    }
    showRing(targets);
    mover.move(targets, glides);
    for (const id of unused) {
      dots.get(id).remove();
      dots.delete(id);
    }
    const isShown = (id) => Boolean(places[placeOf(id)]);
    const first = field.points[dotAtEnd(places, false)]?.id;
    setActive([active, field.selected, first].find(isShown));
    if (focused) dots.get(active)?.focus({ preventScroll: true }); // the focused dot may be gone
    explain(focused ? placeOf(active) : -1);
    const absent = places.filter((place) => place === null).length;
    const reason = field.layout === "scatter" ? "have no value on both axes" : "belong to no group";
    missing.hidden = absent === 0;
    const share = `${formatNumber(absent)} of ${formatNumber(places.length)} dots`;
    missing.textContent = `${share} are not shown: they ${reason}.`;
  }

  function placeOf(id) {
    return field.points.findIndex((point) => point.id === id);
  }

  function addDot(id) {
    const dot = svgElement("path", { class: "chart-dot", role: "option", tabindex: -1 });
    dot.chartDot = id;
    dots.set(id, dot);
    list.append(dot);
    return dot;
  }

  function setActive(id) {
    dots.get(active)?.setAttribute("tabindex", -1);
    active = id;
    dots.get(active)?.setAttribute("tabindex", 0);
  }

  function showRing(targets) {
    const index = placeOf(field.selected);
    ring.style.display = places[index] ? "" : "none";
    if (!places[index]) return;
    ring.setAttribute("r", (field.points[index].size ?? DOT_SIZE) / 2 + 5);
    targets.set(ring, places[index]);
  }

  function explain(place) {
    const point = field.points[place];
    if (place < 0) chart.tooltip.hide();
    else chart.tooltip.show([point.label ?? String(point.id)], ...places[place]);
  }

  const dotAt = (event) => dotNear(places, chartPoint(event, chart.svg), DOT_REACH);
  const onHandle = (event) => handleLayer.contains(event.target);
  chart.svg.addEventListener("pointermove", (event) => {
    const place = onHandle(event) ? -1 : dotAt(event);
    chart.svg.classList.toggle("chart-button", place >= 0 && Boolean(field.onSelect));
    explain(place);
  });
  chart.svg.addEventListener("pointerleave", chart.tooltip.hide);
  chart.svg.addEventListener("click", (event) => {
    const place = onHandle(event) ? -1 : dotAt(event);
    if (place < 0) return;
    setActive(field.points[place].id);
    explain(place); // a touch has no pointer that hovers
    field.onSelect?.(active);
  });
  list.addEventListener("focusin", (event) => explain(placeOf(event.target.chartDot)));
  list.addEventListener("focusout", chart.tooltip.hide);
  list.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const goTo = (place) => setActive(field.points[place].id);
    if (event.key in ALL_ARROWS) goTo(dotTowards(places, placeOf(active), event.key));
    else if (event.key === "Home" || event.key === "End") goTo(dotAtEnd(places, event.key === "End"));
    else if (event.key === "Enter" || event.key === " ") field.onSelect?.(active);
    else return;
    event.preventDefault();
    dots.get(active).focus({ preventScroll: true });
  });
  followWidth(chart.node, (next) => {
    width = next;
    draw(false);
  });
  const update = (changes) => {
    field = { ...field, ...changes };
    draw(true);
  };
  return { node: chart.node, update };
}

// Only what changed is written, so that thousands of dots stay fast.
function showDot(dot, { id, color, shape, size, label }, selected) {
  const look = `${shape} ${size} ${color} ${label} ${selected}`;
  if (dot.chartLook === look) return;
  dot.chartLook = look;
  setAttributes(dot, {
    d: shapePath(shape, size ?? DOT_SIZE), fill: color ?? "var(--accent)", "aria-label": label ?? id,
    "aria-selected": String(selected),
  });
}
