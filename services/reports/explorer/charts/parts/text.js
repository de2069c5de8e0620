"use strict";
// Text that must fit: widths in pixels, and names that are cut with an ellipsis.
const CHART_FONT_SIZE = 12; // pixels, as in charts.css
const NAME_LINE = 16; // pixels from line to line
const LONGEST_VERTICAL_NAME = 84; // pixels
const BOLD_TEXT = 600;
const textRulers = new Map(); // weight -> canvas context with that font

function textWidth(text, weight = 400) {
  if (!textRulers.has(weight)) {
    const ruler = document.createElement("canvas").getContext("2d");
    ruler.font = `${weight} ${CHART_FONT_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
    textRulers.set(weight, ruler);
  }
  return textRulers.get(weight).measureText(text).width;
}

function widestText(texts) {
  return texts.reduce((widest, text) => Math.max(widest, textWidth(text)), 0);
}

// The longest beginning of the text that fits, with an ellipsis if something is missing.
function shortenedText(text, width, weight = 400) {
  if (textWidth(text, weight) <= width) return text;
  const letters = Array.from(text);
  let fits = 0;
  let tooLong = letters.length;
  while (tooLong - fits > 1) {
    const middle = (fits + tooLong) >> 1;
    if (textWidth(`${letters.slice(0, middle).join("").trimEnd()}\u2026`, weight) <= width) fits = middle;
    else tooLong = middle;
  }
  return `${letters.slice(0, fits).join("").trimEnd()}\u2026`;
}

// An SVG text at most ``width`` pixels wide, whose <title> has the whole text where it is cut.
function fittedText(text, width, attributes, weight = 400) {
  const shown = shortenedText(String(text), width, weight);
  const title = shown === String(text) ? null : svgElement("title", {}, String(text));
  return svgElement("text", attributes, shown, title);
}

// How the names of columns are written: side by side if they fit, else upright, and only some where columns are narrow.
function columnNameStyle(items, columnWidth) {
  const names = items.map((item) => String(item.name));
  const across = columnWidth >= 72 || widestText(names) <= columnWidth - 6;
  if (across) {
    const lines = items.some((item) => item.note) ? 2 : 1;
    return { across, every: 1, height: lines * NAME_LINE + 6 };
  }
  const height = Math.min(LONGEST_VERTICAL_NAME, widestText(names)) + 10;
  return { across, every: Math.max(1, Math.ceil(13 / columnWidth)), height };
}

// The names below columns, of items { name, note, selected }, in a style of ``columnNameStyle``; sizes are pixels.
function columnNames(items, style, centers, columnWidth, top) {
  const nodes = [];
  for (const [place, item] of items.entries()) {
    if (place % style.every) continue;
    const look = item.selected ? "chart-name chart-name-selected" : "chart-name";
    const weight = item.selected ? BOLD_TEXT : 400;
    if (style.across) {
      const at = { x: centers[place], "text-anchor": "middle" };
      nodes.push(fittedText(item.name, columnWidth - 6, { ...at, y: top + NAME_LINE - 2, class: look }, weight));
      if (!item.note) continue;
      nodes.push(fittedText(item.note, columnWidth - 6, { ...at, y: top + 2 * NAME_LINE - 2, class: "chart-tick" }));
    } else {
      const turned = `translate(${centers[place] + 4} ${top + 6}) rotate(-90)`;
      const at = { transform: turned, "text-anchor": "end", class: look };
      nodes.push(fittedText(item.name, style.height - 8, at, weight));
    }
  }
  return nodes;
}
