"use strict";
// Several measures of the same things around a centre, each on an axis of its own.
const RADAR_RINGS = [0.25, 0.5, 0.75, 1];

// Axes { name, low, high } from the centre outwards; series { name, values (by axis, null = gap), color }.
function radar(options) {
  return makeChart("radar", options, drawRadar);
}

function drawRadar({ axes, series }, width, chart) {
  if (axes.length === 0 || extentOf(series.flatMap((one) => one.values)) === null) return emptyChart(width);
  const height = Math.round(clampedTo(width * 0.8, 260, 380));
  const center = [width / 2, height / 2];
  const radius = Math.min(height / 2 - 34, width / 2 - Math.min(110, width * 0.26));
  const point = (place, share) => {
    const angle = (place / axes.length) * 2 * Math.PI;
    return [center[0] + Math.sin(angle) * share * radius, center[1] - Math.cos(angle) * share * radius];
  };
  const drawing = [...RADAR_RINGS.map((share) => svgElement("path", {
    class: "chart-grid", d: closedPath(axes.map((_, place) => point(place, share))),
  }))];
  for (const [place, axis] of axes.entries()) {
    drawing.push(svgElement("path", { class: "chart-grid", d: `M${center}L${point(place, 1)}` }));
    drawing.push(radarName(axis, point(place, 1), center, width));
  }
  drawing.push(...series.flatMap((one, order) => radarNodes(one, order, axes, point)));
  const legend = series.map((one, order) => ({
    name: one.name, color: one.color, dash: lineDash(one, order), shape: MARK_SHAPES[order % MARK_SHAPES.length],
  }));
  const controls = radarReader(axes, series, legend, { center, radius, point }, chart);
  return { height, drawing, controls, legend: chartLegend(legend) };
}

function closedPath(points) {
  return `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}Z`;
}

function radarShare(value, { low, high }) {
  return low === high ? 0.5 : clampedTo((value - low) / (high - low), 0, 1);
}

function radarName({ name, low, high }, [x, y], center, width) {
  const side = Math.abs(x - center[0]) < 4 ? "middle" : x > center[0] ? "start" : "end";
  const shift = { middle: 0, start: 8, end: -8 }[side];
  const room = side === "middle" ? width : side === "start" ? width - x - 10 : x - 10;
  const below = y > center[1] + 4;
  const line = side === "middle" ? y + (below ? 18 : -10) : y + 4;
  const text = fittedText(name, room, { class: "chart-name", x: x + shift, y: line, "text-anchor": side });
  text.querySelector("title")?.remove();
  text.append(svgElement("title", {}, `${name}: ${formatNumber(low)} to ${formatNumber(high)}`));
  return text;
}

// The outline, filled where no value is missing, and a mark at every value.
function radarNodes(series, order, axes, point) {
  const { values, color } = series;
  const points = axes.map((axis, place) =>
    Number.isFinite(values[place]) ? point(place, radarShare(values[place], axis)) : null);
  const known = points.filter(Boolean);
  const whole = known.length === points.length;
  const steps = points.map((here, place) => [here, points[(place + 1) % points.length]]).filter(([a, b]) => a && b);
  const d = whole ? closedPath(known) : steps.map(([a, b]) => `M${a}L${b}`).join("");
  return [
    whole ? svgElement("path", { class: "chart-radar-area", d, fill: color }) : null,
    svgElement("path", { class: "chart-line", d, stroke: color, "stroke-dasharray": lineDash(series, order) }),
    ...known.map(([x, y]) => svgElement("path", {
      class: "chart-mark", d: shapePath(MARK_SHAPES[order % MARK_SHAPES.length], 9), fill: color,
      transform: `translate(${x} ${y})`,
    })),
  ].filter(Boolean);
}

function radarReader(axes, series, legend, { center, radius, point }, chart) {
  const nearest = (x, y) => {
    const turn = Math.atan2(x - center[0], center[1] - y) / (2 * Math.PI);
    return Math.round((turn + 1) * axes.length) % axes.length;
  };
  return valueReader({
    label: "Values by axis", count: axes.length, start: 0, nearest,
    box: { x: center[0] - radius, y: center[1] - radius, width: 2 * radius, height: 2 * radius },
    anchor: (place) => point(place, 0.6),
    marks: (place) => [svgElement("path", { class: "chart-reading-rule", d: `M${center}L${point(place, 1)}` })],
    heading: (place) => `${axes[place].name} (${formatNumber(axes[place].low)} to ${formatNumber(axes[place].high)})`,
    rows: (place) => legend.map((item, order) => ({ ...item, text: formatNumber(series[order].values[place]) })),
  }, chart);
}
