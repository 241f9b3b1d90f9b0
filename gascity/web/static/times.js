// Keeps relative times up to date; the exact time is the title.

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
let timer = 0;

function age(at) {
  const seconds = Math.max(0, Math.floor(Date.now() / 1000 - at));
  const [size, unit] = UNITS.find(([size]) => seconds >= size) || [1, ""];
  return unit ? `${Math.floor(seconds / size)}${unit} ago` : "just now";
}

export function updateTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const text = age(Number(time.getAttribute("datetime")));
    if (time.textContent !== text) time.textContent = text;
  }
  clearTimeout(timer);
  timer = setTimeout(updateTimes, 5000);
}
