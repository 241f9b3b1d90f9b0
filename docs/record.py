"""Record the README's animation: run the real program in tmux and write an animated SVG.

    make recording          # writes docs/assets/recording.svg

tmux is the terminal: this script types into it, captures its screen many times a second, and keeps
each screen that differs from the one before. The SVG stacks these screens like a film strip and
moves the strip with a CSS animation, so it needs no script and works inside an <img>. Equal lines
are stored once.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

COLUMNS, ROWS = 92, 26
TARGET = Path(__file__).parent / "assets" / "recording.svg"
LONGEST = 1.3  # seconds that an unchanged screen is shown; longer pauses are cut
FINAL = 3.0  # seconds that the last screen is shown
KEYS, KEYS_SECONDS = 3, 0.03  # keys typed at once, and how long that is shown
DEADLINE = 60.0

CELL_WIDTH, LINE_HEIGHT, FONT_SIZE = 8.4, 18, 14
MARGIN, BAR = 14, 34  # pixels around the text, and of the title bar
BACKGROUND, FOREGROUND, BAR_COLOUR = "#1b1e28", "#d5d9e6", "#262a38"
COLOURS = ("#545b72", "#f27983", "#8fce8b", "#e6c07b", "#7aa7f0", "#c792ea", "#6fd3d8", "#d5d9e6")

Style = tuple[str, ...]  # CSS classes


class Span(NamedTuple):
    """A piece of a line in one style."""

    column: int
    text: str
    style: Style


class Screen(NamedTuple):
    """A captured screen and how long it was shown."""

    text: str
    seconds: float


# The terminal


class Terminal:
    """A shell in a tmux server of its own."""

    def __init__(self, place: Path) -> None:
        self._command = ["tmux", "-u", "-S", str(place / "tmux"), "-f", "/dev/null"]
        self.screens: list[Screen] = []
        self.speed = 1.0  # how much faster the recording is than the program
        self._shown, self._since = "", time.monotonic()
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(place),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PS1": r"\[\e[36m\]$\[\e[0m\] ",
        }
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        shell = ("env", "-i", *(f"{name}={value}" for name, value in environ.items()))
        self._tmux("new-session", "-d", *size, "-c", str(place), *shell, "bash", "--norc", "-i")
        self._tmux("set-option", "-g", "status", "off")

    def _tmux(self, *words: str) -> str:
        return subprocess.run(
            [*self._command, *words], check=True, capture_output=True, text=True
        ).stdout

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def look(self, typed: str = "") -> None:
        """Record the screen if it has changed; while typing, once it shows what was typed."""
        now = time.monotonic()
        end = now + DEADLINE
        while typed and not self.text().rstrip().endswith(typed.rstrip()) and now < end:
            now = time.monotonic()
        shown = self._tmux("capture-pane", "-p", "-e")
        if shown != self._shown:
            self._keep(now, KEYS_SECONDS if typed else None)
            self._shown = shown

    def _keep(self, now: float, seconds: float | None = None) -> None:
        """Record the last screen, by default for as long as it was shown."""
        elapsed = (now - self._since) / self.speed
        if self._shown:
            self.screens.append(Screen(self._shown, elapsed if seconds is None else seconds))
        self._since = now

    def wait(self, condition: Callable[[str], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE
        while not condition(self.text()):
            self.look()
            if time.monotonic() > end:
                raise SystemExit(f"{what} did not happen:\n{self.text()}")
        self.look()

    def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(0.03)

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def type(self, command: str, pause: float = 0.9) -> None:
        """Type a command, run it, and wait for the next prompt."""
        self.enter(command)
        self.wait(_waits_for_a_command, command)
        self.pause(pause)

    def enter(self, command: str) -> None:
        """Type a command and Enter."""
        self._keep(time.monotonic())
        for at in range(0, len(command), KEYS):
            codes = [f"{ord(key):x}" for key in command[at : at + KEYS]]
            self._tmux("send-keys", "-H", *codes)
            self.look(typed=command[: at + KEYS])
        self.pause(0.2)
        self.keys("Enter")

    def clear(self) -> None:
        self.keys("C-l")
        self.wait(lambda text: text.strip() == "$", "clear")

    def close(self) -> list[Screen]:
        self.screens.append(Screen(self._shown, FINAL))
        self._tmux("kill-server")
        return self.screens


def _waits_for_a_command(text: str) -> bool:
    return text.rstrip().rpartition("\n")[2] == "$"


def record(place: Path) -> list[Screen]:
    """Type the commands of the demonstration into a city, and return the screens."""
    terminal = Terminal(place)
    city = f"{place}/hilltop"
    terminal.wait(lambda text: text.strip() == "$", "the prompt")
    terminal.type(f"city init --example {city} > /dev/null; cd {city}; clear", 0)
    terminal.type("city agent set dome/quality.tester idle_timeout=45m > /dev/null; clear", 0)
    terminal.type("city agent set shell max_active_sessions=3 > /dev/null; clear", 0)
    terminal.clear()
    terminal.screens.clear()

    terminal.type("city agent explain dome/tester idle_timeout   # which file set this?", 1.4)
    terminal.type(
        "city apply planner                            # its files, in Claude's format", 1.4
    )
    terminal.clear()
    for number, stars in enumerate(("Orion", "Lyra", "Cygnus"), 1):
        seconds = 13 + number
        terminal.type(f"city sling shell 'sleep {seconds}; echo counted the stars of {stars}'", 0.1)
    terminal.enter("city status --watch")
    terminal.wait(lambda text: text.count(" running ") >= 3, "three sessions")
    terminal.pause(1.5)
    terminal.keys("Down")
    terminal.pause(0.6)
    terminal.keys("q")
    terminal.wait(lambda text: text.rstrip().endswith("$"), "the prompt")
    terminal.type("kill -9 $(cut -d ' ' -f 1 .gc/controller.lock)  # the controller dies", 0.6)
    terminal.type("city start                                      # the next one adopts them", 0.6)
    terminal.enter("city status --watch --until-idle")
    terminal.wait(lambda text: "SESSIONS" in text, "the watch screen")
    terminal.speed = 6.0
    terminal.wait(lambda text: "$ city" in text and text.rstrip().endswith("$"), "the end")
    terminal.speed = 1.0
    terminal.type("city work list", 0.5)
    return terminal.close()


# The picture


def shortened(screens: Sequence[Screen]) -> list[Screen]:
    """Cut long pauses, and join screens that are shown too briefly to be seen."""
    kept: list[Screen] = []
    left = 0.0
    for screen in screens:
        seconds = min(screen.seconds, LONGEST) + left
        if seconds < 0.03:
            left = seconds
            continue
        kept.append(Screen(screen.text, seconds))
        left = 0.0
    return [*kept[:-1], Screen(screens[-1].text, FINAL)]


def spans(line: str) -> Iterator[Span]:
    """Split a line with colour sequences into pieces of one style."""
    style: set[str] = set()
    column = 0
    first, *rest = line.split("\x1b[")
    if first:
        yield Span(0, first, ())
        column = len(first)
    for piece in rest:
        codes, _, text = piece.partition("m")
        for code in codes.split(";"):
            style = _styled(style, int(code or 0))
        if text:
            yield Span(column, text, tuple(sorted(style)))
            column += len(text)


def _styled(style: set[str], code: int) -> set[str]:
    """Return the style after one SGR code; others are ignored."""
    if code == 0:
        return set()
    if 30 <= code <= 37 or code == 39:
        plain = {name for name in style if not name.startswith("c")}
        return plain if code == 39 else {*plain, f"c{code - 30}"}
    names = {1: "bold", 2: "dim", 7: "inverse"}
    return {*style, names[code]} if code in names else style


def line_svg(line: str) -> str:
    """Return the elements of one line, each piece at its column and as wide as its cells."""
    parts = []
    for span in spans(line):
        x, width = span.column * CELL_WIDTH, len(span.text) * CELL_WIDTH
        if "inverse" in span.style:
            parts.append(
                f'<rect x="{x:.1f}" width="{width:.1f}" height="{LINE_HEIGHT}" class="bar"/>'
            )
        if span.text.strip():
            classes = f' class="{" ".join(span.style)}"' if span.style else ""
            length = f'textLength="{width:.1f}"' if len(span.text) > 1 else ""
            parts.append(
                f'<text x="{x:.1f}" y="{FONT_SIZE}" {length}{classes}>{escape(span.text)}</text>'
            )
    return "".join(parts)


def svg(screens: Sequence[Screen]) -> str:
    """Return the animation; a reader who prefers no motion sees the last screen."""
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    inner = ROWS * LINE_HEIGHT
    height = inner + BAR + MARGIN
    total = sum(screen.seconds for screen in screens)
    lines: dict[str, int] = {}
    frames, steps, at = [], [], 0.0
    for number, screen in enumerate(screens):
        steps.append(f"{at / total:.4%}{{transform:translateY({-number * inner}px)}}")
        at += screen.seconds
        for row, line in enumerate(screen.text.rstrip("\n").split("\n")[:ROWS]):
            if line.strip():
                id = lines.setdefault(line.rstrip(), len(lines))
                frames.append(f'<use href="#l{id}" y="{number * inner + row * LINE_HEIGHT}"/>')
    definitions = "".join(f'<g id="l{id}">{line_svg(line)}</g>' for line, id in lines.items())
    end = f"transform:translateY({-(len(screens) - 1) * inner}px)"
    colours = "".join(f".c{n}{{fill:{colour}}}" for n, colour in enumerate(COLOURS))
    dots = "".join(
        f'<circle cx="{18 + 18 * n}" cy="{BAR / 2}" r="5.5" fill="{COLOURS[colour]}"/>'
        for n, colour in enumerate((1, 3, 2))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" role="img" aria-label="Recording of a terminal: '
        'city explains a setting, writes files, runs three work items and survives kill -9">'
        "<style>"
        f"text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',"
        f"monospace;fill:{FOREGROUND};white-space:pre}}"
        f".bold{{font-weight:bold}}.dim{{opacity:.6}}.bar{{fill:{FOREGROUND}}}{colours}"
        f"text.inverse{{fill:{BACKGROUND}}}"
        f"@keyframes film{{{''.join(steps)}}}"
        f".film{{animation:film {total:.2f}s step-end infinite}}"
        f"@media (prefers-reduced-motion:reduce){{.film{{animation:none;{end}}}}}"
        "</style>"
        f"<defs>{definitions}</defs>"
        f'<rect width="100%" height="100%" rx="9" fill="{BACKGROUND}"/>'
        f'<path d="M0 {BAR}V9a9 9 0 0 1 9-9H{width - 9:.0f}a9 9 0 0 1 9 9V{BAR}z" '
        f'fill="{BAR_COLOUR}"/>{dots}'
        f'<svg x="{MARGIN}" y="{BAR + 6}" width="{width - MARGIN:.0f}" height="{inner}">'
        f'<g class="film">{"".join(frames)}</g></svg></svg>\n'
    )


def main() -> None:
    if shutil.which("tmux") is None:
        raise SystemExit("tmux is not installed")
    place = Path("/tmp/demo")  # a short path, because the recording shows it
    place.mkdir(mode=0o700)
    try:
        screens = shortened(record(place))
    finally:
        city = [sys.executable, "-m", "gascity", "--city", str(place / "hilltop")]
        subprocess.run([*city, "stop", "--force"], capture_output=True)
        shutil.rmtree(place)
    TARGET.parent.mkdir(exist_ok=True)
    text = svg(screens)
    TARGET.write_text(text, encoding="utf-8")
    seconds = sum(screen.seconds for screen in screens)
    print(f"{TARGET}: {len(screens)} screens, {seconds:.0f} seconds, {len(text) // 1024} KiB")


if __name__ == "__main__":
    main()
