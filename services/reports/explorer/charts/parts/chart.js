"use strict";
// What charts share: a place as wide as its surroundings, a tooltip, announcements, and parts that can be pressed.
const NARROWEST_CHART = 220; // pixels

// A chart that is drawn again when its width changes. ``draw(options, width, chart)`` returns { height, drawing,
// controls, legend }: arrays of SVG nodes to look at and to operate, and a legend or null. ``chart.memory`` outlives a
// drawing. Something focused keeps the focus if it has the same data-key afterwards.
function makeChart(kind, options, draw) {
  const chart = chartPlace(kind);
  let width = 0;
  const redraw = () => {
    if (width === 0) return;
    const focused = chart.node.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    chart.tooltip.hide();
    const { height, drawing, controls = [], legend = null } = draw(options, width, chart);
    setChartSize(chart.svg, width, height);
    chart.drawing.replaceChildren(...drawing);
    chart.controls.replaceChildren(...controls);
    chart.legend.replaceChildren(...(legend === null ? [] : [legend]));
    if (focused !== undefined) chart.controls.querySelector(`[data-key="${focused}"]`)?.focus({ preventScroll: true });
  };
  followWidth(chart.node, (next) => {
    width = next;
    redraw();
  });
  return chart.node;
}

function chartPlace(kind) {
  const drawing = svgElement("g", { class: "chart-drawing" });
  const controls = svgElement("g", { class: "chart-controls" });
  const svg = svgElement("svg", { class: "chart-svg" }, drawing, controls);
  const legend = element("div", {});
  const box = element("div", { class: "chart-tooltip", "aria-hidden": "true", hidden: "" });
  const announcement = element("p", { class: "chart-announcement", "aria-live": "polite" });
  const plot = element("div", { class: "chart-plot" }, svg, box);
  const node = element("div", { class: "chart", "data-chart": kind }, legend, plot, announcement);
  const announce = (text) => {
    announcement.textContent = text;
  };
  return { node, svg, drawing, controls, legend, plot, tooltip: chartTooltip(box, plot), announce, memory: {} };
}

function setChartSize(svg, width, height) {
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
}

// A place narrower than any phone gets a drawing that is scaled down.
function followWidth(node, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const next = Math.floor(entry.contentRect.width);
    if (next === width || next === 0) return;
    width = next;
    requestAnimationFrame(() => draw(Math.max(next, NARROWEST_CHART))); // inside this call it could start a loop
  });
  observer.observe(node);
}

function chartTooltip(box, plot) {
  return {
    // Beside a point of the plot (pixels), on the side where there is room.
    show(content, x, y) {
      box.replaceChildren(...content);
      box.hidden = false;
      const fitsRight = x + 14 + box.offsetWidth <= plot.clientWidth;
      const left = fitsRight ? x + 14 : x - 14 - box.offsetWidth;
      box.style.left = `${clampedTo(left, 0, Math.max(0, plot.clientWidth - box.offsetWidth))}px`;
      box.style.top = `${Math.max(0, Math.min(y - 12, plot.clientHeight - box.offsetHeight))}px`;
    },
    hide() {
      box.hidden = true;
    },
  };
}

// Where an event happened, in the pixels of the drawing.
function chartPoint(event, svg) {
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

// Show ``label`` beside a node while it is pointed at or, if it can be, focused; ``box`` has its place in pixels. A part
// of a drawing that listens for the focus gets it, so that those without a name must not listen.
function explainNode(node, label, box, chart, focusable) {
  const show = () => chart.tooltip.show([label], box.x + Math.min(box.width, 40), box.y + box.height / 2);
  for (const name of ["pointerenter", ...(focusable ? ["focus"] : [])]) node.addEventListener(name, show);
  for (const name of ["pointerleave", ...(focusable ? ["blur"] : [])]) node.addEventListener(name, chart.tooltip.hide);
}

// A rectangle that explains what it covers and, with ``onPress``, is a button.
function chartTarget({ key, box, label, pressed, onPress }, chart) {
  const button = onPress && {
    role: "button", tabindex: 0, "aria-label": label, "aria-pressed": pressed?.toString(), "data-key": key,
  };
  const look = onPress ? "chart-target chart-button" : "chart-target";
  const target = svgElement("rect", { class: look, rx: 4, ...box, ...button });
  explainNode(target, label, box, chart, onPress !== undefined);
  if (onPress) pressable(target, onPress);
  return target;
}

function pressable(node, onPress) {
  node.addEventListener("click", onPress);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onPress();
  });
}

function emptyChart(width) {
  const at = { x: width / 2, y: 50, "text-anchor": "middle" };
  const text = svgElement("text", { class: "chart-tick", ...at }, "No values");
  return { height: 90, drawing: [text] };
}
