"use strict";
// Controls and small pieces of text that several views use. A control calls ``choose`` with what it changes.
let nextControl = 0;

function labelled(label, control, hint) {
  nextControl += 1;
  control.id = `control-${nextControl}`;
  const explained = hint ? element("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (explained) control.setAttribute("aria-describedby", explained.id);
  return element("div", { class: "control" }, element("label", { for: control.id }, label), control, explained);
}

// ``options``: [{ value, label, problem }]; one with a problem cannot be chosen, and says why.
function dropdown(label, options, value, onChange, { hint, key } = {}) {
  const items = options.map(({ value: own, label: text, problem }) => {
    const shown = problem ? `${text} \u2013 ${problem}` : text;
    const item = element("option", { value: own, disabled: problem ? "" : null }, shown);
    item.selected = own === value;
    return item;
  });
  const select = element("select", { "data-key": key ?? label }, ...items);
  select.addEventListener("change", () => onChange(select.value));
  return labelled(label, select, hint);
}

function slider(label, values, value, onChange, { hint, disabled } = {}) {
  const place = Math.max(0, values.indexOf(value));
  const input = element("input", {
    type: "range", min: 0, max: values.length - 1, step: 1, value: place, "aria-valuetext": String(values[place]),
    disabled: disabled ? "" : null, "data-key": label,
  });
  const output = element("output", {}, String(values[place]));
  input.addEventListener("input", () => {
    output.textContent = String(values[input.value]);
    input.setAttribute("aria-valuetext", output.textContent);
  });
  input.addEventListener("change", () => onChange(values[input.value])); // the page is drawn again when it is let go
  const control = labelled(label, input, hint);
  input.after(output);
  return control;
}

function radios(label, options, value, onChange) {
  nextControl += 1;
  const name = `choice-${nextControl}`;
  const items = options.map(({ value: own, label: text }) => {
    const input = element("input", { type: "radio", name, value: own, "data-key": `${label}/${own}` });
    input.checked = own === value;
    input.addEventListener("change", () => onChange(own));
    return element("label", {}, input, text);
  });
  return element("fieldset", { class: "control radios" }, element("legend", {}, label), ...items);
}

function toggle(label, value, onChange, { disabled } = {}) {
  const input = element("input", { type: "checkbox", "data-key": label, disabled: disabled ? "" : null });
  input.checked = value;
  input.addEventListener("change", () => onChange(input.checked));
  return element("label", { class: "control toggle" }, input, label);
}

function button(label, onPress, attributes = {}) {
  const made = element("button", { type: "button", "data-key": label, ...attributes }, label);
  made.addEventListener("click", onPress);
  return made;
}

// A list of terms and values; a value may be a node.
function figures(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
  const items = shown.flatMap(([term, value]) => [
    element("dt", {}, term),
    element("dd", {}, typeof value === "number" ? formatNumber(value) : value),
  ]);
  return element("dl", { class: "figures" }, ...items);
}

function notice(text, kind = "note") {
  return element("p", { class: `notice ${kind}`, role: kind === "warning" ? "note" : null }, text);
}

function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), ...children);
}

const FIRST_ROWS = 12; // of a long table; a button shows the others

// A table whose cells may be nodes; rows with ``onPress`` have a button in their first cell.
function dataTable(head, rows, { caption, limit = 1000 } = {}) {
  const shownRows = rows.slice(0, limit);
  const columns = head.map((text) => element("th", { scope: "col" }, text));
  const lines = shownRows.map(({ cells: [first, ...rest], onPress, selected }) => {
    const name = onPress ? button(first, onPress, { class: "link", "aria-pressed": selected ? "true" : null }) : first;
    const cell = (value) => element("td", {}, typeof value === "number" ? formatNumber(value) : (value ?? "\u2013"));
    const look = { class: selected ? "selected" : null };
    return element("tr", look, element("th", { scope: "row" }, name), ...rest.map(cell));
  });
  const more = rows.length > limit ? [notice(`${formatNumber(rows.length - limit)} more rows are not shown.`)] : [];
  const later = lines.length > FIRST_ROWS + 2 ? lines.slice(FIRST_ROWS) : [];
  const key = `rows/${caption ?? head[0]}`;
  const isOpen = later.length === 0 || pageMemory[key] || shownRows.slice(FIRST_ROWS).some(({ selected }) => selected);
  if (!isOpen) {
    for (const line of later) line.hidden = true;
    more.unshift(button(`Show all ${formatNumber(lines.length)} rows`, ({ currentTarget }) => {
      pageMemory[key] = true;
      for (const line of later) line.hidden = false;
      const place = currentTarget.closest(".table-place");
      currentTarget.remove();
      (later[0].querySelector("button") ?? place).focus({ preventScroll: true });
    }, { class: "link" }));
  }
  const title = caption ? element("caption", {}, caption) : null;
  const table = element("table", {}, title, element("thead", {}, element("tr", {}, ...columns)),
    element("tbody", {}, ...lines));
  const place = { class: "table-place", tabindex: 0, role: "region", "aria-label": caption ?? head[0] };
  return element("div", place, table, ...more);
}

const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %` : "\u2013");

const signed = (value) => `${value > 0 ? "+" : ""}${formatNumber(value)}`;

const roleOf = (run, name) => run.roles.find((role) => role.name === name) ?? { name, label: name, color: "var(--soft)" };

const counted = (count, one, many = `${one}s`) => `${formatNumber(count)} ${count === 1 ? one : many}`;
