// Requests to the server, and its events. Every wait has a limit.
const LIMIT_MS = 60000;
const RETRY_MS = 1500;

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: AbortSignal.timeout(LIMIT_MS) });
  } catch (error) {
    throw new Error(error.name === "TimeoutError" ? "The server did not answer within a minute." : "The server cannot be reached. What you entered is saved; start it again, and this page goes on.");
  }
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

export const read = (path) => ask(path);
export const send = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
export const sendText = (path, text) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: text });

// Calls `changed` with numbers of lines that have changed, and with nothing when all may have: after each connection.
export function listen(changed, connected) {
  const source = new EventSource("/api/events");
  source.onopen = () => {
    connected(true);
    changed(null);
  };
  source.onmessage = (event) => changed(JSON.parse(event.data).lines);
  source.onerror = () => {
    connected(false);
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    setTimeout(() => listen(changed, connected), RETRY_MS);
  };
}
