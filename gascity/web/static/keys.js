// Keys: `/` filters, `j` and `k` select a row, Enter opens it, `g` and a letter opens a page.

const PAGES = { c: "/", w: "/work", s: "/sessions", a: "/agents", d: "/delegation", p: "/packs", h: "/changes" };
let selected = -1;
let going = false;

export function handleKeys() {
  document.addEventListener("keydown", press);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) help();
  });
}

function help() {
  document.querySelector("dialog.help").showModal();
}

function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]");
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (going) {
    going = false;
    if (PAGES[event.key]) location.href = PAGES[event.key];
    return;
  }
  const action = ACTIONS[event.key];
  if (action && action(event) !== false) event.preventDefault();
}

const ACTIONS = {
  "/": () => {
    const filter = document.getElementById("filter");
    if (!filter) return false;
    filter.focus();
    filter.select();
  },
  "?": help,
  g: () => {
    going = true;
    setTimeout(() => (going = false), 1500);
  },
  n: () => (location.href = "/sling"),
  j: () => select(1),
  k: () => select(-1),
  Enter: (event) => {
    if (event.target.closest("a, button, summary")) return false;
    const link = rows()[selected]?.querySelector("a.main, a");
    if (!link) return false;
    link.click();
  },
};

function rows() {
  return [...document.querySelectorAll("#main [data-row]")];
}

function select(step) {
  const all = rows();
  if (!all.length) return false;
  const now = all.findIndex((row) => row.classList.contains("selected"));
  selected = Math.max(0, Math.min(all.length - 1, (now < 0 ? -1 : now) + step));
  if (now >= 0) all[now].classList.remove("selected");
  all[selected].classList.add("selected");
  all[selected].scrollIntoView({ block: "nearest" });
}
