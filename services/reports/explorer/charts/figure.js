"use strict";
// A chart with its title, a sentence, a description for screen readers, and its values as a table.

// ``label`` is a sentence with the main figures; ``table`` is { head: [text], rows: [[text or number or null]] }.
function figureOf({ title, note, chart, table, label }) {
  const drawing = chart.querySelector(".chart-drawing");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", label);
  return element("figure", { class: "chart-figure card" },
    element("figcaption", {}, element("h3", {}, title), element("p", { class: "soft" }, note)), chart,
    tableDetails(title, table));
}

function tableDetails(title, table) {
  const name = `${title}, as a table`;
  const place = element("div", { class: "chart-table", tabindex: 0, role: "region", "aria-label": name });
  const details = element("details", {}, element("summary", {}, "Show as a table"), place);
  details.addEventListener("toggle", () => place.append(valueTable(table)), { once: true });
  return details;
}

function valueTable({ head, rows }) {
  const columns = head.map((name) => element("th", { scope: "col" }, name));
  const cell = (value) => element("td", {}, cellText(value));
  const lines = rows.map(([first, ...rest]) =>
    element("tr", {}, element("th", { scope: "row" }, cellText(first)), ...rest.map(cell)));
  return element("table", {}, element("thead", {}, element("tr", {}, ...columns)), element("tbody", {}, ...lines));
}

function cellText(value) {
  return typeof value === "string" ? value : formatNumber(value);
}
