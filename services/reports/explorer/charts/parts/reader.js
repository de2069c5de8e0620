"use strict";
// A layer over a plot that reads out the values at one of several places: by pointer, touch and keys.

// ``box`` is the layer's place in pixels, and ``nearest(x, y)`` the place that a point means. ``anchor(place)`` says
// where its tooltip stands, ``marks(place)`` are nodes that show it, ``heading(place)`` names it, and ``rows(place)``
// has { name, text, color } and a sign for each value. The layer is a slider: screen readers give it the arrow keys.
function valueReader({ label, count, start, box, nearest, anchor, marks, heading, rows, onSelect }, chart) {
  const marked = svgElement("g", { class: "chart-marks" });
  const layer = svgElement("rect", {
    class: onSelect ? "chart-reader chart-button" : "chart-reader", ...box, role: "slider", tabindex: 0,
    "data-key": "reader", "aria-label": `${label}: arrow keys read values${onSelect ? ", Enter selects" : ""}`,
    "aria-valuemin": 1, "aria-valuemax": count,
  });
  let place = clampedTo(chart.memory.place ?? start, 0, count - 1);

  function move(next) {
    place = clampedTo(next, 0, count - 1);
    chart.memory.place = place;
    layer.setAttribute("aria-valuenow", place + 1);
    layer.setAttribute("aria-valuetext", heading(place));
  }

  function show(next) {
    move(next);
    const found = rows(place);
    marked.replaceChildren(...marks(place));
    chart.tooltip.show(readoutNodes(heading(place), found), ...anchor(place));
    chart.announce(found.map((row) => `${row.name} ${row.text}`.trim()).join(", "));
  }

  function hide() {
    marked.replaceChildren();
    chart.tooltip.hide();
  }

  layer.addEventListener("pointermove", (event) => show(nearest(...chartPoint(event, chart.svg))));
  layer.addEventListener("pointerdown", (event) => show(nearest(...chartPoint(event, chart.svg))));
  layer.addEventListener("pointerleave", hide);
  layer.addEventListener("focus", () => show(place));
  layer.addEventListener("blur", hide);
  layer.addEventListener("click", (event) => {
    show(nearest(...chartPoint(event, chart.svg)));
    onSelect?.(place);
  });
  layer.addEventListener("keydown", (event) => {
    const steps = {
      ArrowLeft: place - 1, ArrowDown: place - 1, ArrowRight: place + 1, ArrowUp: place + 1,
      PageDown: place - 10, PageUp: place + 10, Home: 0, End: count - 1,
    };
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) show(steps[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && onSelect) onSelect(place);
    else return;
    event.preventDefault();
  });
  move(place);
  return [marked, layer];
}

function readoutNodes(heading, rows) {
  return [
    element("strong", {}, heading),
    ...rows.map((row) => element("span", { class: "chart-readout" },
      legendSample(row), element("span", {}, row.name), element("b", {}, row.text))),
  ];
}

// The place whose position (pixels, ascending) is nearest.
function nearestPosition(positions, wanted) {
  let low = 0;
  let high = positions.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (positions[middle] <= wanted) low = middle;
    else high = middle;
  }
  return Math.abs(positions[high] - wanted) < Math.abs(positions[low] - wanted) ? high : low;
}
