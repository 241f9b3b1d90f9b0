// Returns what is wrong with the page: texts with too little contrast, controls without a label.
() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const light = ([r, g, b]) => {
    const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] > 0.99) return c;
    }
    return [255, 255, 255, 1];
  };
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.checkVisibility() || e.closest(":disabled, dialog")) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${ratio.toFixed(2)} ${e.outerHTML.slice(0, 90)}`);
  }
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a")) {
    if (!e.checkVisibility()) continue;
    const label = e.labels?.length || e.getAttribute("aria-label") || e.textContent.trim();
    if (!label) wrong.push(`no label: ${e.outerHTML.slice(0, 90)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) wrong.push("scrolls sideways");
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  return wrong;
}
