"""Conversion between records and table rows.

A row has the columns of its record's fields, in that order. The exceptions: work spreads its result
over four columns at the end, and mail's `to` is the column `recipient` (TO is an SQL keyword).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from gascity.model.values import JsonObject
from gascity.model.work import Decision, Event, Mail, Nudge, Run, Session, Work, WorkResult

Row = tuple[Any, ...]
_Record = TypeVar("_Record", bound=NamedTuple)

_WORK_COLUMNS = tuple(name for name in Work._fields if name != "result")
_RESULT = Work._fields.index("result")
_RESERVED = Work._fields.index("reserved")
_NO_REFLECTION = Work._fields.index("no_reflection")
_DEPENDS_ON = Work._fields.index("depends_on")

WORK = ", ".join((*_WORK_COLUMNS, "summary", "exit_code", "usage", "cost"))
SESSION = ", ".join(Session._fields)
RUN = ", ".join(Run._fields)
MAIL = ", ".join("recipient" if name == "to" else name for name in Mail._fields)
NUDGE = ", ".join(Nudge._fields)
EVENT = ", ".join(Event._fields)
DECISION = ", ".join(Decision._fields)


def _reader(record: type[_Record], **decoders: Callable[[Any], object]) -> Callable[[Row], _Record]:
    """Return a function that makes a record of a row; `decoders` convert columns by field name."""
    by_index = [(record._fields.index(name), decode) for name, decode in decoders.items()]

    def read(row: Row) -> _Record:
        values = list(row)
        for index, decode in by_index:
            values[index] = decode(values[index])
        return record._make(values)

    return read


# Importing `json` takes a millisecond, and few rows need it.


def _from_json(text: str) -> JsonObject:
    """Return the object that a column holds as JSON."""
    if text == "{}":
        return {}
    from json import loads

    decoded: JsonObject = loads(text)
    return decoded


def to_json(value: Mapping[str, object]) -> str:
    """Return an object as a column holds it."""
    if not value:
        return "{}"
    from json import dumps

    return dumps(dict(value))


def to_usage(text: str | None) -> Mapping[str, int] | None:
    """Return the number of tokens by kind; None if it is not known."""
    if not text:
        return None
    from json import loads

    usage: Mapping[str, int] = loads(text)
    return usage


to_session = _reader(Session, prints=_from_json, interactive=bool, attached=bool)
to_run = _reader(Run, usage=to_usage)
to_event = _reader(Event, data=_from_json)
to_mail = _reader(Mail)
to_nudge = _reader(Nudge)
to_decision = _reader(Decision)


def to_work(row: Row) -> Work:
    """Return the work item of a row; a null summary means that it has no result."""
    *values, summary, exit_code, usage, cost = row
    result = None
    if summary is not None:
        result = WorkResult(exit_code, summary, to_usage(usage), cost)
    values.insert(_RESULT, result)
    values[_RESERVED] = bool(values[_RESERVED])
    values[_NO_REFLECTION] = bool(values[_NO_REFLECTION])
    depends_on = values[_DEPENDS_ON]
    values[_DEPENDS_ON] = tuple(depends_on.split(" ")) if depends_on else ()
    return Work._make(values)


def result_columns(result: WorkResult | None) -> tuple[object, ...]:
    """Return the values of summary, exit_code, usage and cost."""
    if result is None:
        return (None, None, None, None)
    usage = None if result.usage is None else to_json(result.usage)
    return (result.summary, result.exit_code, usage, result.cost)


def to_column(value: object) -> object:
    """Return a field's value as its column holds it: mappings are JSON."""
    if value is None or isinstance(value, (str, int, float)):  # a test for Mapping is slow
        return value
    return to_json(value) if isinstance(value, Mapping) else value


def column_values(changes: Mapping[str, object], allowed: Collection[str]) -> list[object]:
    """Return the values for an UPDATE. Raise ValueError for a column that may not be changed."""
    for column in changes:
        if column not in allowed:
            raise ValueError(f"cannot set the column `{column}`")
    return [to_column(value) for value in changes.values()]
