"""State of the live view: the rows a user can select, the filter, and what each key does.

Pure: `watch.py` reads the city and the keys, and carries out the commands that `press` returns.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.cli.records import age_start, session_name
from gascity.cli.status import CityStatus
from gascity.cli.status.screen import (
    BACKSPACE,
    CLOSED,
    DOWN,
    END,
    ENTER,
    ESCAPE,
    HOME,
    INTERRUPT,
    PAGE_DOWN,
    PAGE_UP,
    UP,
)
from gascity.control.status import is_over
from gascity.model.names import parse_name
from gascity.model.work import CLAIMED, DONE, FINISHED, LIVE, OPEN, Session, Work, status_word

SESSION, WORK = "session", "work"  # kinds of rows
QUIT, LOG, ATTACH, CANCEL, RETRY = "quit", "log", "attach", "cancel", "retry"  # commands

_PAGE = 10  # rows of PageUp and PageDown
_MOVES = {UP: -1, "k": -1, DOWN: 1, "j": 1, PAGE_UP: -_PAGE, PAGE_DOWN: _PAGE}
_COMMANDS = {"l": LOG, ENTER: LOG, "a": ATTACH, "c": CANCEL, "r": RETRY}
_STATUS_ORDER = {CLAIMED: 0, OPEN: 1}


class Row(NamedTuple):
    """A session or a work item. `work` and `title` of a session are those of its work item."""

    kind: str
    id: str
    name: str  # what the user calls it
    agent: str
    rig: str
    state: str
    work: str
    title: str
    reason: str
    since: float
    over: bool  # it ended
    interactive: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.id

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether it contains every word, which are in lower case."""
        state = status_word(self.state)
        texts = (self.name, self.agent, state, self.work, self.title, self.reason)
        return contains(" ".join(texts), words)


class Rows(NamedTuple):
    """All rows that pass the filter, in the order of the screen."""

    sessions: tuple[Row, ...] = ()
    work: tuple[Row, ...] = ()
    hidden: int = 0  # rows that the filter hides

    @property
    def all(self) -> tuple[Row, ...]:
        return (*self.sessions, *self.work)


class Command(NamedTuple):
    """A command that the user gave, and its row."""

    name: str
    row: Row | None = None


def contains(text: str, words: Sequence[str]) -> bool:
    """Return whether a text contains every word, in any case."""
    text = text.casefold()
    return all(word in text for word in words)


class View:
    """The user's selection and filter, and the question that is open."""

    def __init__(self) -> None:
        self.selected: tuple[str, str] | None = None
        self.filter = ""
        self.typing = False  # the filter is being typed
        self.question: Row | None = None  # whose work item is to be cancelled
        self.message = ""
        self._index = 0  # of the selected row, for the time when it disappears

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the filter, in lower case."""
        return tuple(self.filter.casefold().split())

    def rows(self, current: CityStatus, work: Mapping[str, Work]) -> Rows:
        """Return the rows, and keep one of them selected."""
        sessions = [_session_row(session, work) for session in sorted(current.sessions, key=_place)]
        held = {session.work for session in current.sessions if session.state in LIVE}
        items = [_work_row(item) for item in sorted(work.values(), key=_work_place)]
        items = [row for row in items if row.id not in held]
        words = self.words
        found = Rows(
            tuple(row for row in sessions if row.matches(words)),
            tuple(row for row in items if row.matches(words)),
        )
        self._keep_selection(found.all)
        return found._replace(hidden=len(sessions) + len(items) - len(found.all))

    def _keep_selection(self, rows: Sequence[Row]) -> None:
        keys = [row.key for row in rows]
        if self.selected in keys:
            self._index = keys.index(self.selected)
        else:
            self._index = max(0, min(self._index, len(keys) - 1))
            self.selected = keys[self._index] if keys else None

    def press_all(self, keys: Sequence[str], rows: Rows) -> Command | None:
        """Handle keys that arrived together.

        Those after a question are dropped: pasted text must not answer it.
        """
        for key in keys:
            command = self.press(key, rows)
            if command is not None or self.question is not None:
                return command
        return None

    def press(self, key: str, rows: Rows) -> Command | None:
        """Handle one key; return the command it gives, if any."""
        self.message = ""
        if key in (INTERRUPT, CLOSED):
            return Command(QUIT)
        if self.typing:
            self._type(key)
            return None
        if self.question is not None:
            row, self.question = self.question, None
            return Command(CANCEL, row) if key in ("y", "Y") else None
        if key in _MOVES or key in (HOME, END, "g", "G"):
            self._move(key, rows.all)
        elif key == "/":
            self.typing = True
        elif key == ESCAPE:
            self.filter = ""
        elif key in ("q", "Q"):
            return Command(QUIT)
        elif key in _COMMANDS:
            return self._command(_COMMANDS[key], rows.all)
        return None

    def _type(self, key: str) -> None:
        if key == BACKSPACE:
            self.filter = self.filter[:-1]
        elif key in (ENTER, ESCAPE):
            self.typing = False
            self.filter = self.filter if key == ENTER else ""
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _move(self, key: str, rows: Sequence[Row]) -> None:
        last = len(rows) - 1
        target = self._index + _MOVES.get(key, 0)
        target = 0 if key in (HOME, "g") else last if key in (END, "G") else target
        self._index = max(0, min(target, last))
        self.selected = rows[self._index].key if rows else None

    def _command(self, name: str, rows: Sequence[Row]) -> Command | None:
        """Return the command for the selected row; else set the message that says why not."""
        row = next((row for row in rows if row.key == self.selected), None)
        if row is None:
            self.message = "nothing is selected"
            return None
        self.message = _refusal(name, row)
        if self.message:
            return None
        if name == CANCEL:
            self.question = row
            return None
        return Command(name, row)


def _refusal(name: str, row: Row) -> str:
    """Return why a command does not apply to a row; "" if it does."""
    if name == ATTACH and row.kind == WORK:
        return f"{row.name} is {status_word(row.state)}: attach works for sessions"
    if name == ATTACH and not row.interactive:
        return f"{row.name} has no terminal; press l to follow its log"
    if name in (CANCEL, RETRY) and not row.work:
        return f"{row.name} has no work item"
    finished = row.kind == WORK and row.state in FINISHED
    if name == CANCEL and (finished or (row.kind == SESSION and row.over)):
        return f"{row.work} is {row.state}" if finished else f"{row.name} is {row.state}"
    if name == RETRY and (row.kind == SESSION or row.state == DONE):
        return f"{row.work} is {'running' if row.kind == SESSION else row.state}"
    return ""


def _session_row(session: Session, work: Mapping[str, Work]) -> Row:
    item = work.get(session.work)
    return Row(
        SESSION,
        session.id,
        session_name(session),
        session.agent,
        parse_name(session.agent).rig or "",
        session.state,
        session.work,
        item.title if item is not None else "",
        session.reason,
        age_start(session),
        is_over(session),
        session.interactive,
    )


def _work_row(item: Work) -> Row:
    rig = parse_name(item.agent).rig or ""
    over = item.status in FINISHED
    since = item.updated if over else item.created
    return Row(
        *(WORK, item.id, item.id, item.agent, rig, item.status, item.id, item.title, item.reason),
        *(since, over),
    )


def _place(session: Session) -> tuple[bool, str, int, str]:
    """Sort key: live sessions keep their line, ended ones come last in their given order."""
    if is_over(session):
        return True, "", 0, ""
    return False, session.agent, session.slot, session.alias


def _work_place(item: Work) -> tuple[int, int, float]:
    """Sort key: running, then queued by priority and age, then the latest finished first."""
    if item.status in FINISHED:
        return 2, 0, -item.updated
    return _STATUS_ORDER[item.status], item.priority, item.created
