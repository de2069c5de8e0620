const dark = window.matchMedia("(prefers-color-scheme: dark)");
const narrow = window.matchMedia("(max-width: 600px)");
const byId = new Map(report.charts.map((chart) => [chart.id, chart]));
const drawn = new Set();

function draw(chart, colors = pageColors()) {
  const place = document.getElementById(chart.id);
  const traces = chosenTraces(chart);
  const shown = layout(chart, traces, colors, narrow.matches);
  if (shown.height) place.style.height = `${shown.height}px`;
  if (chart.traces.some((trace) => trace.when)) place.setAttribute("aria-label", words(chart));
  drawn.add(chart);
  Plotly.react(place, colored(traces.map(plain), colors), shown, { displayModeBar: false, responsive: true });
}

function drawAgain(charts) {
  const colors = pageColors();
  for (const chart of charts) draw(chart, colors);
}

function refreshTable(chart) {
  const details = document.querySelector(`details[data-chart="${CSS.escape(chart.id)}"]`);
  if (details.open) fillTable(details.querySelector(".scroll"), chart);
}

for (const details of document.querySelectorAll("details[data-chart]")) {
  details.addEventListener("toggle", () => refreshTable(byId.get(details.dataset.chart)));
}

// Controls of one name, in several sections, show and set the same value.
function show(input, value) {
  const options = report.options[input.dataset.control];
  const place = options.findIndex(([each]) => each === value);
  input.value = input.type === "range" ? place : value;
  if (input.type !== "range") return;
  input.setAttribute("aria-valuetext", options[place][1]);
  input.nextElementSibling.textContent = options[place][1];
}

function choose(name, value) {
  chosen[name] = value;
  for (const input of document.querySelectorAll(`[data-control="${name}"]`)) show(input, value);
  const charts = report.charts.filter((chart) => answers(chart, name));
  drawAgain(charts.filter((chart) => drawn.has(chart)));
  charts.forEach(refreshTable);
}

for (const input of document.querySelectorAll("[data-control]")) {
  const name = input.dataset.control;
  show(input, chosen[name]); // a browser may keep the value of an earlier visit
  input.addEventListener("input", () => choose(name, input.type === "range" ? report.options[name][input.value][0] : input.value));
}

// What is on the screen is drawn first, and the rest while the browser has nothing else to do.
const waiting = [...report.charts];
function drawNext() {
  const chart = waiting.shift();
  if (!chart) return;
  if (!drawn.has(chart)) draw(chart);
  setTimeout(drawNext);
}
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watch.unobserve(entry.target);
    const chart = byId.get(entry.target.id);
    if (!drawn.has(chart)) draw(chart);
  }
});
for (const chart of report.charts) watch.observe(document.getElementById(chart.id));
setTimeout(drawNext, 100);

dark.addEventListener("change", () => drawAgain(drawn));
narrow.addEventListener("change", () => drawAgain(drawn));
