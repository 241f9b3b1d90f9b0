// Loads the main part of the page again when the city changed, and changes only what differs.
import { listen } from "./changes.js";

const MIN_PAUSE = 100; // milliseconds from one load to the next while much is happening
const MAX_PAUSE = 2000;
let loading = false;
let again = false;
let nextLoad = 0;
let onUpdate = () => {};

export function watchChanges(updated) {
  onUpdate = updated;
  let version = document.body.dataset.version; // of the city when this page was read
  const heard = (message) => {
    connected(message.connected);
    if (message.connected && version !== message.version) {
      version = message.version;
      refresh();
    }
  };
  if (window.SharedWorker) {
    new BroadcastChannel("city-changes").onmessage = (event) => heard(event.data);
    const worker = new SharedWorker("/static/worker.js", { type: "module" });
    worker.port.onmessage = (event) => heard(event.data);
  } else {
    const source = listen(heard);
    window.addEventListener("pagehide", () => source.close());
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && again) refresh();
  });
  // The browser may show a page again that it kept without running it.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) refresh();
  });
}

function connected(yes) {
  const dot = document.querySelector("[data-connection]");
  const text = document.querySelector("[data-connection-text]");
  if (dot) dot.dataset.connection = yes ? "live" : "lost";
  if (text) text.textContent = yes ? "Live" : "Not connected";
}

// Loads the page again; `atOnce` after an action, else when the page and the server can bear it.
export async function refresh(atOnce = false) {
  if (loading || document.hidden) {
    again = true;
    return;
  }
  const wait = nextLoad - Date.now();
  loading = true;
  again = false;
  if (wait > 0 && !atOnce) await new Promise((done) => setTimeout(done, wait));
  const start = Date.now();
  const url = location.href;
  try {
    const response = await fetch(url, { headers: { "X-Fragment": "main" } });
    if (response.status === 403) connected(false); // never reload: the user may be typing
    const text = await response.text();
    if (location.href !== url) again = true; // the list was filtered meanwhile
    else if (response.ok || response.status === 404) show(text);
  } catch {
    connected(false);
  } finally {
    loading = false;
    // A server that is busy, perhaps with other pages, is asked less often.
    const took = Date.now() - start;
    const least = Number(document.getElementById("page-head")?.dataset.pause) || MIN_PAUSE;
    nextLoad = Date.now() + Math.max(least, Math.min(MAX_PAUSE, 2 * took));
  }
  if (again) refresh();
}

export function show(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = `<main id="main" tabindex="-1">${html}</main>`;
  merge(document.getElementById("main"), fresh.content.firstElementChild);
  onUpdate();
}

// Makes `old` like `fresh`. What the user is typing, opened or selected stays; `data-keep` marks a
// part that changes by itself and is replaced only if its key changes. A node that stays is not
// moved if that can be avoided, because an element that is moved loses the focus: the nodes before
// it are removed instead.
function merge(old, fresh) {
  if (old.dataset && old.dataset.keep && old.dataset.keep === fresh.dataset.keep) return;
  mergeAttributes(old, fresh);
  const known = new Map();
  for (const child of old.children) if (child.id) known.set(child.id, child);
  const wantedIds = new Set([...fresh.children].map((child) => child.id).filter(Boolean));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const match = wanted.id ? known.get(wanted.id) : nextAlike(place, wanted);
    if (!match) {
      old.insertBefore(wanted, place);
      continue;
    }
    while (place && place !== match && !wantedIds.has(place.id)) place = removed(place);
    if (match === place) place = place.nextSibling;
    else old.insertBefore(match, place);
    if (match.nodeType === Node.TEXT_NODE) {
      if (match.data !== wanted.data) match.data = wanted.data;
    } else if (match.nodeType === Node.ELEMENT_NODE) merge(match, wanted);
  }
  while (place) place = removed(place);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// The next node of the same kind, up to one that has an id: those are found by it.
function nextAlike(place, wanted) {
  for (let node = place; node && !node.id; node = node.nextSibling)
    if (alike(node, wanted)) return node;
  return null;
}

function alike(a, b) {
  return a.nodeName === b.nodeName && !a.id && !b.id;
}

function mergeAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (name === "open" || (name === "value" && old === document.activeElement)) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (name === "open" || fresh.hasAttribute(name)) continue;
    if (name === "class" && old.classList.contains("selected")) old.className = "selected";
    else old.removeAttribute(name);
  }
}
