"""Reads from the output of runs how much of the model's context a session uses."""

import os
from typing import TYPE_CHECKING

from gascity.model.settings import ProviderFacts
from gascity.model.values import JsonObject
from gascity.render.run_output import RunOutput, parse

if TYPE_CHECKING:
    from gascity.store.port import Store

_TAIL = 512 * 1024  # bytes of a log that are read
_RUNS = 2  # the current run, and the one before it
_LEVELS = (("Critical", 92), ("Red", 85), ("Yellow", 70), ("Green", 0))


def context_values(store: "Store", session: str, facts: ProviderFacts) -> JsonObject:
    """Return `Context`; nothing before the first answer in the session's conversation."""
    record = store.session(session)
    format = facts.headless.output
    if record is None or record.interactive or not format:
        return {}
    for run in store.runs(session=session)[:_RUNS]:
        output = parse(format, [_tail(run.log)], None)
        if output.context is not None and _continues(output, record.conversation):
            return {"Context": usage_of(output.context, facts.limits.context_tokens)}
    return {}


def usage_of(tokens: int, limit: int | None) -> JsonObject:
    """Return the values of `Context`; percentage and status need a known limit."""
    if not limit:
        return {"Tokens": tokens}
    percentage = min(100, tokens * 100 // limit)
    status = next(name for name, least in _LEVELS if percentage >= least)
    return {
        "Tokens": tokens,
        "Limit": limit,
        "Percentage": percentage,
        "Status": {name: name == status for name, _ in _LEVELS},
    }


def _continues(output: RunOutput, conversation: str) -> bool:
    """Return whether a run belongs to the conversation; a new one starts with empty context."""
    return not output.conversation or output.conversation == conversation


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""
