"use strict";
// Vertical handles over a plot, at numbers on its x axis: sliders that are dragged or moved by keys.

// ``show(state)`` draws the handles of a state { boundaries, axes, domain, xTitle, onBoundary }, or none for null.
// A handle stays between its neighbours; while one is dragged, ``onBoundary`` is called at most once a frame.
function boundaryHandles(layer, svg) {
  let state = null;
  const handles = [];

  function show(next) {
    state = next;
    const count = state?.boundaries.length ?? 0;
    while (handles.length < count) handles.push(handleNode(handles.length));
    for (const unused of handles.splice(count)) unused.remove();
    layer.append(...handles.filter((handle) => handle.parentNode !== layer)); // the others keep focus and pointer
    for (const index of handles.keys()) place(index);
  }

  function place(index) {
    const { boundaries, axes, domain, xTitle } = state;
    const value = boundaries[index];
    const shown = clampedTo(value, ...domain);
    const handle = handles[index];
    const [line, hit, grip, text] = handle.children;
    handle.setAttribute("transform", `translate(${axes.xScale(shown).toFixed(2)} 0)`);
    line.setAttribute("d", `M0 ${axes.top}V${axes.bottom}`);
    setAttributes(hit, { y: axes.top, height: axes.bottom - axes.top });
    grip.setAttribute("transform", `translate(0 ${axes.bottom - 26})`);
    text.textContent = axisNumber(value);
    const nearRight = axes.xScale(shown) + textWidth(text.textContent) + 12 > axes.right;
    setAttributes(text, { x: nearRight ? -6 : 6, y: axes.top + 12, "text-anchor": nearRight ? "end" : "start" });
    setAttributes(handle, {
      "aria-label": `Boundary ${index + 1} of ${boundaries.length}${xTitle ? ` on ${xTitle}` : ""}`,
      "aria-valuemin": domain[0], "aria-valuemax": domain[1], "aria-valuenow": shown,
      "aria-valuetext": axisNumber(value),
    });
  }

  function move(index, wanted) {
    const { boundaries, domain } = state;
    const low = boundaries[index - 1] ?? domain[0];
    const high = boundaries[index + 1] ?? domain[1];
    state.boundaries = boundaries.with(index, clampedTo(wanted, low, high));
    place(index);
  }

  function handleNode(index) {
    const handle = svgElement("g", { class: "chart-boundary", role: "slider", tabindex: 0 },
      svgElement("path", { class: "chart-boundary-line" }),
      svgElement("rect", { class: "chart-boundary-hit", x: -14, width: 28 }),
      svgElement("path", { class: "chart-boundary-grip", d: "M-8 -14h16v28h-16ZM-3 -6v12M3 -6v12" }),
      svgElement("text", { class: "chart-halo" }));
    const tell = (finished) => state.onBoundary?.(index, state.boundaries[index], finished);
    const handleX = () => state.axes.xScale(clampedTo(state.boundaries[index], ...state.domain));
    dragSideways(handle, {
      start: (event) => chartPoint(event, svg)[0] - handleX(),
      move: (event, grabbed) => move(index, state.axes.xScale.invert(chartPoint(event, svg)[0] - grabbed)),
      tell,
    });
    handle.addEventListener("keydown", (event) => {
      const [low, high] = state.domain;
      const parts = {
        ArrowLeft: -0.01, ArrowDown: -0.01, ArrowRight: 0.01, ArrowUp: 0.01, PageDown: -0.1, PageUp: 0.1,
      };
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key in parts) move(index, state.boundaries[index] + parts[event.key] * (high - low));
      else if (event.key === "Home") move(index, low);
      else if (event.key === "End") move(index, high);
      else return;
      event.preventDefault();
      tell(true);
    });
    return handle;
  }

  return { show };
}

// Follow one pointer that holds a node: ``move(event, grabbed)`` and ``tell(false)`` once a frame, with what ``start``
// returned, and ``tell(true)`` at the end, if the pointer has moved. The window listens, because a node that is put
// elsewhere loses its pointer.
function dragSideways(node, { start, move, tell }) {
  let held = null; // { pointer, grabbed, latest: the last movement, frame }

  function followPointer() {
    held.frame = null;
    if (!node.isConnected) return;
    move(held.latest, held.grabbed);
    tell(false);
  }

  function note(event) {
    if (event.pointerId !== held.pointer) return;
    held.latest = event;
    held.frame ??= requestAnimationFrame(followPointer);
  }

  function release(event) {
    if (event.pointerId !== held.pointer) return;
    cancelAnimationFrame(held.frame);
    removeEventListener("pointermove", note);
    for (const name of ["pointerup", "pointercancel"]) removeEventListener(name, release);
    const { latest, grabbed } = held;
    held = null;
    node.classList.remove("chart-held");
    if (latest === null || !node.isConnected) return;
    move(latest, grabbed);
    tell(true);
  }

  node.addEventListener("pointerdown", (event) => {
    if (held !== null || event.button !== 0) return;
    event.preventDefault(); // no selection of text
    node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    node.classList.add("chart-held");
    held = { pointer: event.pointerId, grabbed: start(event), latest: null, frame: null };
    addEventListener("pointermove", note);
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, release);
  });
}
