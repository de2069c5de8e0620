// A chart's table: what is drawn, in numbers.
function figure(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return unescaped(String(value));
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

function places(trace) {
  if (trace.customdata) return trace.customdata; // the true updates of markers that stand beside one another
  return trace.x ?? trace.y.map((_, i) => trace.x0 + i * trace.dx);
}

function withInterval(trace, i) {
  const bars = trace.error_y?.array;
  if (!bars) return figure(trace.y[i]);
  const low = trace.y[i] - (trace.error_y.arrayminus ?? bars)[i];
  return `${figure(trace.y[i])} [${figure(low)}, ${figure(trace.y[i] + bars[i])}]`;
}

// Head and rows of a chart of lines or bars: a row for each place on the x axis, a column for each trace.
function seriesRows(chart, traces) {
  const cells = new Map();
  traces.forEach((trace, column) => places(trace).forEach((x, i) => {
    if (!cells.has(x)) cells.set(x, Array(traces.length).fill(""));
    cells.get(x)[column] = withInterval(trace, i);
  }));
  const keys = [...cells.keys()];
  if (keys.every((key) => typeof key === "number")) keys.sort((a, b) => a - b);
  const half = chart.bins && traces.length ? traces[0].dx / 2 : 0;
  const label = (x) => (half ? `${figure(x - half)} to ${figure(x + half)}` : figure(x));
  const first = chart.x ?? (chart.category ? "" : "update");
  return [[first, ...traces.map((trace) => unescaped(trace.name))], keys.map((x) => [label(x), ...cells.get(x)])];
}

function boxRows(chart, traces) {
  const head = [chart.category ? "" : "update", "5%", "25%", "median", "75%", "95%", "mean"];
  const parts = ["lowerfence", "q1", "median", "q3", "upperfence", "mean"];
  return [head, traces.flatMap((trace) => trace.x.map((x, i) => [figure(x), ...parts.map((part) => figure(trace[part][i]))]))];
}

function mapRows(traces) {
  const [trace] = traces;
  const rows = trace.y.map((name, i) => [figure(name), ...trace.z[i].map(figure)]).reverse();
  return [[unescaped(trace.name), ...trace.x.map((x) => (typeof x === "number" ? `update ${x}` : unescaped(x)))], rows];
}

function tableRows(chart) {
  const traces = chosenTraces(chart).filter((trace) => trace.table !== false);
  if (!traces.length) return [["no data for this choice"], []];
  if (traces[0].type === "heatmap") return mapRows(traces);
  return traces[0].type === "box" ? boxRows(chart, traces) : seriesRows(chart, traces);
}

function row(tag, texts) {
  const line = document.createElement("tr");
  texts.forEach((text, column) => {
    const cell = document.createElement(column ? tag : "th");
    cell.textContent = text;
    if (cell.tagName === "TH") cell.scope = tag === "th" ? "col" : "row";
    if (column) cell.className = "number";
    line.append(cell);
  });
  return line;
}

function fillTable(box, chart) {
  const [head, rows] = tableRows(chart);
  const table = document.createElement("table");
  const top = table.createTHead();
  const body = table.createTBody();
  top.append(row("th", head));
  body.append(...rows.map((texts) => row("td", texts)));
  box.replaceChildren(table);
}
