"""The screen of a terminal: its lines and its cursor, as a runtime captures them."""

from typing import NamedTuple


class TerminalScreen(NamedTuple):
    """The visible lines, without joining wrapped ones, and the cursor's column and row in cells."""

    lines: tuple[str, ...]
    x: int
    y: int
    cursor_shown: bool = True

    @property
    def before_cursor(self) -> str:
        """The text left of the cursor, padded with blanks up to it."""
        return self._split()[0]

    @property
    def after_cursor(self) -> str:
        """The text from the cursor on."""
        return self._split()[1]

    def line(self, row: int) -> str:
        """Return a line without blanks at its end; "" outside the screen."""
        return self.lines[row].rstrip() if 0 <= row < len(self.lines) else ""

    @property
    def is_blank(self) -> bool:
        return not any(line.strip() for line in self.lines)

    def _split(self) -> tuple[str, str]:
        line = self.lines[self.y] if 0 <= self.y < len(self.lines) else ""
        column = 0
        for index, char in enumerate(line):
            if column >= self.x:
                return line[:index], line[index:]
            column += _cells(char)
        return line + " " * (self.x - column), ""


def _cells(char: str) -> int:
    """Return how many cells a terminal uses for a character."""
    if char < "\u0300":
        return 1
    import unicodedata

    if unicodedata.combining(char) or char in "\u200b\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
