"use strict";
// The controls of a page of phases: buttons, slider, keys, playing, and addresses that lead to a phase and a power.
const PLAY_MS = 1200;

// ``phases`` are the names of the places, which ``draw`` shows; ``power`` reads or sets the power in the address, and
// ``first`` is the place of a page whose address names none.
function makeTimeline(phases, draw, power, first = 0) {
  let current = 0;
  let timer = null;
  let gliding = false; // while the slider is held, a key repeats or the game plays: one entry in the history for all

  const clamp = (index) => Math.min(phases.length - 1, Math.max(0, index));

  function address() {
    const parts = new URLSearchParams({ phase: phases[current] });
    if (power.get()) parts.set("power", power.get());
    return `#${parts}`;
  }

  function remember(replaces) {
    if (location.hash === address()) return;
    try {
      history[replaces ? "replaceState" : "pushState"](null, "", address());
    } catch {
      // A page inside another document has no address of its own.
    }
  }

  function show(index) {
    current = clamp(index);
    draw(current);
    byId("slider").value = current;
    byId("slider").setAttribute("aria-valuetext", title(phases[current]).join(", "));
    byId("place").textContent = placeName(phases[current]);
    if (current === phases.length - 1) pause();
  }

  function go(index, glides = false) {
    show(index);
    remember(glides && gliding);
    gliding = glides;
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    byId("play").textContent = "\u25B6";
    byId("play").setAttribute("aria-label", "Play");
  }

  function toggle() {
    if (timer !== null) return pause();
    if (current === phases.length - 1) go(0);
    timer = setInterval(() => go(current + 1, true), PLAY_MS);
    byId("play").textContent = "\u275A\u275A";
    byId("play").setAttribute("aria-label", "Pause");
  }

  function followAddress() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const wanted = phases.indexOf(parts.get("phase") ?? "");
    power.set(parts.get("power") ?? "");
    show(wanted < 0 ? first : wanted);
    gliding = false;
  }

  async function copyAddress() {
    remember(true);
    const link = location.href.split("#")[0] + address();
    let copied = true;
    try {
      await navigator.clipboard.writeText(link);
    } catch {
      copied = copyByHand(link);
    }
    byId("copied").textContent = copied ? "Link copied." : link;
  }

  byId("slider").max = phases.length - 1;
  byId("slider").addEventListener("input", (event) => go(Number(event.target.value), true));
  byId("slider").addEventListener("change", () => (gliding = false));
  byId("back").addEventListener("click", () => go(current - 1));
  byId("next").addEventListener("click", () => go(current + 1));
  byId("play").addEventListener("click", toggle);
  byId("copy").addEventListener("click", copyAddress);
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest(".scroll, .orders, pre, select")) return; // a focused box has its own use for these keys
    const onControl = event.target.matches("button, input[type=checkbox], summary");
    const steps = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: phases.length - 1 };
    if (event.key in steps) go(steps[event.key], event.repeat);
    else if (event.key === " " && !onControl) toggle();
    else return;
    event.preventDefault();
  });
  addEventListener("popstate", followAddress);

  return {
    go,
    get current() {
      return current;
    },
    start: followAddress,
    // Draw the same place again, with another power.
    refresh() {
      show(current);
      remember(false);
      gliding = false;
    },
  };
}

function copyByHand(text) {
  const field = element("textarea", "unseen");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
