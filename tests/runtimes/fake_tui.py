"""A small program with an input line, a menu, a dialog and a running turn, for tests of typing.

It draws what the file `state` in its directory says, and again whenever that changes:

- `prompt`: an empty input line between two rules; typed text appears there, Enter sends it
- `slow`: the same, but typed text appears only once the file `show` exists
- `menu`: a menu whose entry has the same prompt character; Enter chooses it
- `dialog`: a question; Enter answers it
- `busy`: an empty input line under a running turn
- `trap`: looks like `prompt`, but opens the menu as soon as text arrives

It appends every key to the file `keys`, sent messages to `sent` and answers to `chosen`.
"""

import os
import select
import sys
import termios
import tty

WIDTH = 100
RULE = "─" * 40
MENU = ("Select model", "❯ 1. Fast", "  2. Slow")
SCREENS = {
    "menu": MENU,
    "dialog": ("Do you trust the files in this folder?", "❯ No, exit", "  Yes"),
}


def state() -> str:
    try:
        with open("state") as file:
            return file.read().strip() or "prompt"
    except FileNotFoundError:
        return "prompt"


def append(name: str, text: str) -> None:
    with open(name, "a") as file:
        file.write(text)


def wrapped(line: str) -> list[str]:
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


class FakeTui:
    def __init__(self) -> None:
        self.text = ""
        self.shown = ""

    def draw(self) -> None:
        now = state()
        visible = self.text if now != "slow" or os.path.exists("show") else ""
        if now in SCREENS:
            self.put("\r\n".join(SCREENS[now]) + "\x1b[?25l")
            return
        lines = [part for line in visible.split("\n") for part in wrapped(line)]
        turn = "✢ Thinking… (esc to interrupt)" if now == "busy" else ""
        body = "\r\n".join((turn, RULE, "❯ " + "\r\n  ".join(lines), RULE, "  ? for help"))
        row, column = 2 + len(lines), 3 + len(lines[-1])
        self.put(f"{body}\x1b[{row};{column}H\x1b[?25h")

    def put(self, text: str) -> None:
        if text != self.shown:
            self.shown = text
            os.write(1, f"\x1b[2J\x1b[H{text}".encode())

    def key(self, data: str) -> None:
        append("keys", data)
        for piece in data.replace("\x1b[200~", "\0").replace("\x1b[201~", "\0").split("\0"):
            now = state()
            if now == "trap" and piece:
                with open("state", "w") as file:
                    file.write("menu")
            elif now in SCREENS and "\r" in piece:
                append("chosen", f"{now}\n")
            elif piece == "\r" and now not in SCREENS:
                append("sent", f"{self.text}\n")
                self.text = ""
            elif now not in SCREENS:
                self.text += piece.replace("\r", "\n")


def main() -> None:
    before = termios.tcgetattr(0)
    tty.setraw(0)
    os.write(1, b"\x1b[?2004h")
    tui = FakeTui()
    try:
        while True:
            tui.draw()
            if select.select([0], [], [], 0.02)[0]:
                data = os.read(0, 1 << 16).decode()
                if not data or "\x03" in data:
                    return
                tui.key(data)
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)


if __name__ == "__main__":
    sys.exit(main())
