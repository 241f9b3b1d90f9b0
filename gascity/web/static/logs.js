// Follows logs and terminal screens. Text is inserted as text, never as HTML.

const MOST = 600000; // characters that stay in a log
const SCREEN_PAUSE = 1000; // milliseconds
const started = new WeakSet();

export function followLogs() {
  for (const box of document.querySelectorAll("[data-log]")) {
    if (started.has(box)) continue;
    started.add(box);
    follow(box);
  }
  for (const box of document.querySelectorAll("[data-screen]")) {
    if (started.has(box)) continue;
    started.add(box);
    watchScreen(box);
  }
}

// A page that nobody looks at has no connection: a browser allows six per server.
function follow(box) {
  const state = { source: null, offset: "", ended: false };
  const update = () => {
    if (document.hidden || !box.isConnected) state.source?.close();
    else if (!state.ended && state.source?.readyState !== EventSource.OPEN) connect(box, state);
  };
  update();
  document.addEventListener("visibilitychange", update);
  window.addEventListener("pagehide", () => state.source?.close());
}

function connect(box, state) {
  state.source?.close();
  const note = box.parentElement.querySelector("[data-log-note]");
  const source = new EventSource(box.dataset.log + (state.offset && `?offset=${state.offset}`));
  state.source = source;
  source.addEventListener("start", (event) => {
    box.textContent = "";
    box.dataset.empty = "No output yet.";
    const skipped = JSON.parse(event.data);
    if (skipped) note.textContent = `The first ${skipped.toLocaleString("en")} bytes are not shown.`;
  });
  source.addEventListener("text", (event) => {
    if (!box.isConnected) return source.close();
    state.offset = event.lastEventId;
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 40;
    box.append(JSON.parse(event.data));
    if (box.textContent.length > MOST) box.textContent = box.textContent.slice(-MOST / 2);
    if (atEnd) box.scrollTop = box.scrollHeight;
  });
  source.addEventListener("end", (event) => {
    source.close();
    state.ended = true;
    const exists = JSON.parse(event.data);
    box.dataset.empty = exists ? "The run wrote nothing." : "The log no longer exists.";
    box.dataset.ended = "1";
  });
}

async function watchScreen(box) {
  while (box.isConnected) {
    if (!document.hidden) {
      const response = await fetch(box.dataset.screen).catch(() => null);
      if (response && response.ok) {
        const text = await response.text();
        if (box.textContent !== text) box.textContent = text;
      }
    }
    await new Promise((done) => setTimeout(done, SCREEN_PAUSE));
  }
}
