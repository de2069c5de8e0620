"use strict";
// A table of coloured cells: blue for low, orange for high, the page's paper between; arrows move from cell to cell.
const CELL_HEIGHT = 30; // pixels
const WIDEST_CELL = 84;

// ``values[row][column]`` may be null. With ``symmetric`` the paper's colour means 0, else the middle of the values.
// ``onSelect`` gets the places of row and column.
function heatMap(options) {
  return makeChart("heat", options, drawHeatMap);
}

function drawHeatMap({ rows, columns, values, xTitle, yTitle, onSelect, symmetric }, width, chart) {
  const extent = extentOf(values.flat());
  if (rows.length === 0 || columns.length === 0 || extent === null) return emptyChart(width);
  const limit = Math.max(Math.abs(extent[0]), Math.abs(extent[1]));
  const domain = symmetric ? [-limit, limit] : extent;
  const left = Math.ceil(Math.min(widestText(rows), width * 0.3)) + 8;
  const cellWidth = Math.min(WIDEST_CELL, (width - left - 6) / columns.length);
  const items = columns.map((name) => ({ name }));
  const style = columnNameStyle(items, cellWidth);
  const cellHeight = rows.length > 20 ? 20 : CELL_HEIGHT;
  const top = yTitle ? 22 : 2;
  const bottom = top + rows.length * cellHeight;
  const height = bottom + style.height + (xTitle ? AXIS_LABEL_HEIGHT : 0);
  const right = left + columns.length * cellWidth;
  const centers = columns.map((_, column) => left + (column + 0.5) * cellWidth);
  const drawing = [
    ...rows.map((name, row) => fittedText(name, left - 8, {
      class: "chart-name", x: left - 6, y: top + (row + 0.5) * cellHeight + 4, "text-anchor": "end",
    })),
    ...columnNames(items, style, centers, cellWidth, bottom),
  ];
  if (yTitle) drawing.push(fittedText(yTitle, width, { class: "chart-axis-title", x: 0, y: 13 }));
  if (xTitle) drawing.push(xTitleNode(xTitle, { left, right: Math.max(right, left + 120) }, height));
  const cell = (row, column) => heatCell(values[row][column], `${rows[row]}, ${columns[column]}`, domain, {
    x: left + column * cellWidth, y: top + row * cellHeight, width: cellWidth, height: cellHeight,
  }, chart);
  const name = [yTitle, xTitle].filter(Boolean).join(" by ") || "Values";
  const line = (row) => svgElement("g", { role: "row" }, ...columns.map((_, column) => cell(row, column)));
  const grid = svgElement("g", { role: "grid", "aria-label": name }, ...rows.map((_, row) => line(row)));
  moveInGrid(grid, onSelect, chart.memory);
  return { height, drawing, controls: [grid], legend: heatLegend(domain) };
}

// Background of a value: a mix of the paper with one of the ends.
function heatColor(value, [low, high]) {
  const part = low === high ? 0 : ((value - low) / (high - low)) * 2 - 1;
  const end = part < 0 ? "var(--chart-low)" : "var(--chart-high)";
  return `color-mix(in oklab, ${end} ${(Math.abs(part) * 100).toFixed(1)}%, var(--paper))`;
}

function heatCell(value, name, domain, box, chart) {
  const known = Number.isFinite(value);
  const label = `${name}: ${known ? formatNumber(value) : "no value"}`;
  const text = heatText(value, box.width - 4);
  const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, "text-anchor": "middle" };
  const cell = svgElement("g", { role: "gridcell", class: "chart-cell", tabindex: -1, "aria-label": label },
    svgElement("rect", { ...box, class: known ? null : "chart-cell-empty" }),
    text === "" ? null : svgElement("text", { ...at, "aria-hidden": "true" }, text));
  if (known) cell.firstChild.style.fill = heatColor(value, domain);
  explainNode(cell, label, box, chart, true);
  return cell;
}

// A value with as many digits as fit: at least one after the point. Zeros need no text, because they have no colour.
function heatText(value, width) {
  if (!Number.isFinite(value)) return "\u2013";
  if (value === 0) return "";
  const texts = [formatNumber(value), formatNumber(Number(value.toFixed(1)))];
  return texts.find((text) => textWidth(text) <= width && text !== "0") ?? "";
}

// One tab stop for all cells: arrows, Home and End move the focus, Enter and a click select.
function moveInGrid(grid, onSelect, memory) {
  const cells = [...grid.children].map((row) => [...row.children]);
  let [row, column] = memory.cell ?? [0, 0];
  if (!cells[row]?.[column]) [row, column] = [0, 0];
  cells[row][column].setAttribute("tabindex", 0);

  function moveTo(nextRow, nextColumn) {
    cells[row][column].setAttribute("tabindex", -1);
    row = clampedTo(nextRow, 0, cells.length - 1);
    column = clampedTo(nextColumn, 0, cells[0].length - 1);
    memory.cell = [row, column];
    cells[row][column].setAttribute("tabindex", 0);
    cells[row][column].focus();
  }

  grid.addEventListener("keydown", (event) => {
    const steps = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      Home: [row, 0], End: [row, cells[0].length - 1],
      PageUp: [0, column], PageDown: [cells.length - 1, column],
    };
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) moveTo(...steps[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && onSelect) onSelect(row, column);
    else return;
    event.preventDefault();
  });
  for (const [cellRow, line] of cells.entries()) {
    for (const [cellColumn, cell] of line.entries()) {
      cell.dataset.key = `${cellRow}-${cellColumn}`;
      cell.addEventListener("click", () => {
        moveTo(cellRow, cellColumn);
        onSelect?.(cellRow, cellColumn);
      });
    }
  }
}

function heatLegend([low, high]) {
  return element("div", { class: "chart-heat-legend" }, element("span", {}, formatNumber(low)),
    element("span", { class: "chart-heat-scale", role: "img", "aria-label": "blue is low, orange is high" }),
    element("span", {}, formatNumber(high)));
}
