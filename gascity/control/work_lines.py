"""Work items in a file: one per line, as text or as a JSON object."""

import json
from collections.abc import Iterator, Mapping

from gascity.control.enqueue import SlingRequest
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Place, Problem
from gascity.model.values import as_integer, as_texts

_KEYS = ("title", "text", "priority", "after", "on")


def read_work_lines(text: str, file: str, common: SlingRequest) -> list[SlingRequest]:
    """Return a request for each line; `common` has what a line does not say.

    Empty lines are skipped. Raises CityError with the problems of all lines.
    """
    requests: list[SlingRequest] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = Place(file, line=number, col=1)
        # Each item needs a key of its own, or the store would take it for a repetition.
        request = common._replace(place=place, key=f"{common.key}-{number}")
        if not line.lstrip().startswith("{"):
            requests.append(request._replace(text=line.strip()))
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            problems.append(Problem("bad-value", f"not a JSON object: {error}", place))
            continue
        found = list(_problems(entry, place))
        problems += found
        if not found:
            requests.append(_request(request, entry))
    if not requests and not problems:
        problems.append(Problem("empty-work", "there are no work items", Place(file)))
    if problems:
        raise CityError(*problems)
    return requests


def _problems(entry: Mapping[str, object], place: Place) -> Iterator[Problem]:
    for key, value in entry.items():
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"the keys are {', '.join(_KEYS)}"
            yield Problem("unknown-key", f"`{key}` is not a key of a work item", place, hint)
        elif not _fits(key, value):
            hint = {"priority": "a number", "after": "a list of work ids"}.get(key, "a text")
            yield Problem("bad-type", f"`{key}` must be {hint}", place)
    if not entry.get("text") and not entry.get("title"):
        yield Problem("empty-work", "the item has neither `text` nor `title`", place)


def _fits(key: str, value: object) -> bool:
    if key == "priority":
        return as_integer(value) is not None
    if key == "after":
        return as_texts(value) is not None
    return isinstance(value, str)


def _request(common: SlingRequest, entry: Mapping[str, object]) -> SlingRequest:
    priority = as_integer(entry.get("priority"))
    return common._replace(
        text=str(entry.get("text") or entry["title"]),
        title=str(entry.get("title") or ""),
        priority=common.priority if priority is None else priority,
        after=(*common.after, *(as_texts(entry.get("after")) or ())),
        start_from=str(entry.get("on") or common.start_from),
    )
