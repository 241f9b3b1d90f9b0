// Filters lists while the user types, sends actions without leaving the page, copies commands.
import { refresh, show } from "./live.js";

const PAUSE = 150; // milliseconds after the last key
const SHOWN = 8000; // milliseconds for which a message stays
let timer = 0;

export function handleForms() {
  document.addEventListener("input", (event) => {
    const form = event.target.closest("[data-filter]");
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => filter(form), PAUSE);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-filter]")) {
      event.preventDefault();
      filter(event.target);
    } else if (event.target.matches("[data-action]")) {
      event.preventDefault();
      send(event.target, event.submitter);
    }
  });
  document.addEventListener("click", copy);
}

async function filter(form) {
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  const text = query.toString();
  const url = text ? `${location.pathname}?${text}` : location.pathname;
  history.replaceState(null, "", url);
  const response = await fetch(url, { headers: { "X-Fragment": "main" } });
  if (response.ok && location.href.endsWith(url)) show(await response.text());
}

async function send(form, button) {
  const question = button?.dataset.confirm;
  if (question && !confirm(question)) return;
  const body = new URLSearchParams(new FormData(form));
  if (button) button.disabled = true;
  try {
    const response = await fetch(form.action, { method: "POST", body, headers: { "X-Fragment": "1" } });
    const json = response.headers.get("content-type")?.startsWith("application/json");
    if (!json) return message(await response.text(), false);
    const outcome = await response.json();
    if (outcome.ok && outcome.location) {
      sessionStorage.setItem("message", outcome.lines.join("\n"));
      location.href = outcome.location;
      return;
    }
    message(outcome.lines.join("\n") || "Done.", outcome.ok);
    if (outcome.ok) form.reset();
    refresh(true);
  } catch {
    message("The server does not answer. Is `city web` still running?", false);
  } finally {
    if (button) button.disabled = false;
  }
}

function message(text, ok) {
  const toast = document.querySelector(".toast");
  toast.textContent = text;
  toast.classList.toggle("bad", !ok);
  toast.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (toast.hidden = true), ok ? SHOWN : SHOWN * 3);
  toast.onclick = () => (toast.hidden = true);
}

const left = sessionStorage.getItem("message"); // of an action that led to this page
if (left) {
  sessionStorage.removeItem("message");
  message(left, true);
}

async function copy(event) {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy).catch(() => {});
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}
