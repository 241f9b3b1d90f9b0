"""Why a person's file cannot be read or changed, and where."""


class DocumentFault(Exception):
    """`line` and `col` start at 1; `col` counts characters."""

    def __init__(self, message: str, line: int = 1, col: int = 1):
        super().__init__(message)
        self.message = message
        self.line = line
        self.col = col


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset. A byte order mark takes no column."""
    until = text[:offset].removeprefix("\ufeff")
    return until.count("\n") + 1, len(until) - until.rfind("\n")
