"""How records lie in rows: columns in the order of their fields, and back."""

import json
from collections.abc import Collection, Mapping

from gascity.model.work import Decision, Event, Mail, Nudge, Result, Run, Session, Work
from gascity.store.book import Row

WORK = (
    "id, agent, title, body, status, priority, attempts, failures, created, updated, not_before,"
    " session, generation, reserved, depends_on, branch, base, workdir, commits,"
    " log, reason, sender, parent, depth, summary, exit_code, usage, cost"
)
SESSION = ", ".join(Session._fields)
RUN = ", ".join(Run._fields)
MAIL = "id, thread, sender, recipient, subject, body, at, read, archived"
NUDGE = ", ".join(Nudge._fields)
EVENT = ", ".join(Event._fields)
DECISION = ", ".join(Decision._fields)

_PRINTS = Session._fields.index("prints")
_INTERACTIVE = Session._fields.index("interactive")
_ATTACHED = Session._fields.index("attached")
_USAGE = Run._fields.index("usage")


def to_work(row: Row) -> Work:
    needs, result = row[14], None
    if row[24] is not None:
        result = Result(row[25], row[24], _loaded(row[26]), row[27])
    depends_on = tuple(needs.split(" ")) if needs else ()
    return Work._make((*row[:13], bool(row[13]), depends_on, *row[15:19], result, *row[19:24]))


def to_session(row: Row) -> Session:
    values = list(row)
    values[_PRINTS] = json.loads(row[_PRINTS])
    values[_INTERACTIVE] = bool(row[_INTERACTIVE])
    values[_ATTACHED] = bool(row[_ATTACHED])
    return Session(*values)


def to_run(row: Row) -> Run:
    values = list(row)
    values[_USAGE] = _loaded(row[_USAGE])
    return Run(*values)


def to_event(row: Row) -> Event:
    return Event._make((*row[:5], json.loads(row[5])))


def to_mail(row: Row) -> Mail:
    return Mail(*row)


def to_nudge(row: Row) -> Nudge:
    return Nudge(*row)


def to_decision(row: Row) -> Decision:
    return Decision(*row)


def to_column(value: object) -> object:
    """A field's value as it is kept; mappings as JSON."""
    return json.dumps(dict(value)) if isinstance(value, Mapping) else value


def _loaded(text: str | None) -> Mapping[str, int] | None:
    loaded: Mapping[str, int] | None = None if text is None else json.loads(text)
    return loaded


def setting(changes: Mapping[str, object], allowed: Collection[str]) -> tuple[str, list[object]]:
    """The middle of an UPDATE; ValueError for a column that may not be changed so."""
    for column in changes:
        if column not in allowed:
            raise ValueError(f"`{column}` cannot be set")
    return ", ".join(f"{name} = ?" for name in changes), [to_column(v) for v in changes.values()]


def marks(values: Collection[object]) -> str:
    """As many question marks as there are values."""
    return ", ".join("?" * len(values))
