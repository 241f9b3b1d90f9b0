"""From parsed tables to settings: every key known, every value of its type, all faults at once."""

import re
from collections.abc import Iterable, Iterator, Mapping

from gascity.model.fields import Edit, Field, Kind, Table
from gascity.model.ignored import NOT_ACTED_ON
from gascity.model.names import did_you_mean
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.secrets import is_secret
from gascity.model.tables import OPTION, PROVIDER

_SEVERAL = r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+\Z"

# A variable as a shell would fill it in, which nothing does here.
_BARE = r"\$[A-Z_][A-Z0-9_]*\b"
_ENV_HINTS = {
    "agent": "write ${NAME} for a variable of the host",
    "provider": "sessions have the host's variables anyway; an agent's `env` takes ${NAME}",
    "workspace": "sessions have the host's variables anyway; an agent's `env` takes ${NAME}",
}

# What published packs write where they mean off.
_NO_TIME = frozenset(("", "0", "0ms", "0s", "0m", "0h"))
# Asking an enumeration for one of its members takes longer than most checks do.
_SET = Edit.SET
_STRING, _STRINGS, _STRING_MAP = Kind.STRING, Kind.STRINGS, Kind.STRING_MAP
_DURATION, _INTEGER, _BOOLEAN = Kind.DURATION, Kind.INTEGER, Kind.BOOLEAN

_UNITS = ("s", "m", "h", "d", "w")
_LARGEST = 2**63 - 1

# What the author of a pack would have to mend, and what may then be left out.
_AUTHORS = frozenset(
    "unknown-key bad-type bad-value bad-duration bad-name missing-key name-mismatch two-prompts "
    "duplicate-name no-prompt".split()
)
_NOWHERE = frozenset(("missing-file", "path-leaves-pack", "link-leaves-pack"))
# Leaving one of these out would let an agent do more than its author wanted.
_BOUNDS = frozenset("tools capabilities skills_filter mcp_filter agents_filter limits".split())

_PYTHON: Mapping[Kind, type | tuple[type, ...]] = {
    Kind.STRING: str,
    Kind.PATH: str,
    Kind.DURATION: str,
    Kind.INTEGER: int,
    Kind.NUMBER: (int, float),
    Kind.BOOLEAN: bool,
    Kind.STRINGS: list,
    Kind.TABLES: list,
    Kind.STRING_MAP: dict,
    Kind.ANY_MAP: dict,
}


class Decoded:
    """One table after decoding; faulty keys are left out of `values`."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.written: dict[str, str] = {}
        self.problems: list[Problem] = []


def decode(
    table: Table,
    raw: Mapping[str, object],
    file: str,
    at: KeyPath = (),
    *,
    not_acted_on: Mapping[str, str] | None = None,
    apart: frozenset[str] = frozenset(),
) -> Decoded:
    """Check a table against its fields. Keys in `apart` are read by someone else."""
    out = Decoded()
    odd = _take_the_plain(table, raw, "", out.values, apart)
    for key, spelled, value in _leaves(table, odd, "") if odd else ():
        path = spelled.split(".") if spelled.partition(".")[0] in odd else [spelled]
        _take(table, out, key, spelled, value, Place(file, (*at, *path)), not_acted_on or {})
    for wanted in table.required:
        if wanted.name not in out.values and wanted.name not in raw:
            words = f"`{wanted.name}` is missing: {wanted.doc}"
            out.problems.append(Problem("missing-key", words, Place(file, at)))
    env = out.values.get("env")
    if isinstance(env, dict) and table.name in _ENV_HINTS:
        bare = [key for key, value in env.items() if "$" in value and re.search(_BARE, value)]
        out.problems += (
            [_bare_reference(bare, Place(file, (*at, "env")), table.name)] if bare else []
        )
    return out


def _bare_reference(found: list[str], place: Place, where: str) -> Problem:
    """Values that look like a shell's; only their keys are told, for some are secrets."""
    keys = ", ".join(f"`{key}`" for key in found)
    words = f"`env`: `$` before a name is text and is not filled in: {keys}"
    return warning("bare-reference", words, place, _ENV_HINTS[where])


def _take_the_plain(
    table: Table,
    raw: Mapping[str, object],
    prefix: str,
    values: dict[str, object],
    apart: frozenset[str],
) -> dict[str, object]:
    """Take what is right at first sight, and return what needs a closer look.

    Nearly everything is right, and cities are large.
    """
    odd: dict[str, object] = {}
    keys = table.keys
    for name, value in raw.items():
        if name in apart and not prefix:
            continue
        known = keys.get(prefix + name)
        if known is not None and "." not in name and _surely_fine(known[0], known[1], value):
            values[prefix + name] = tuple(value) if type(value) is list else value
        elif known is None and type(value) is dict and prefix + name in table.prefixes:
            inner = _take_the_plain(table, value, f"{prefix}{name}.", values, apart)
            if inner:
                odd[name] = inner
        else:
            odd[name] = value
    return odd


def _surely_fine(field: Field, edit: Edit, value: object) -> bool:
    """The common right values, told quickly; False only means that a closer look is due."""
    kind = field.kind
    if type(value) is list:
        return kind is _STRINGS and not field.choices and _plain_texts(value)
    if edit is not _SET:
        return False
    if type(value) is str:
        if field.choices:
            return value in field.choices or (kind is _DURATION and _plain_duration(value))
        return (
            "\0" not in value if kind is _STRING else kind is _DURATION and _plain_duration(value)
        )
    if type(value) is dict:
        return kind is _STRING_MAP and _plain_texts(value) and _plain_texts(value.values())
    if type(value) is int:
        return kind is _INTEGER and (field.minimum or 0) <= value <= _LARGEST
    return kind is _BOOLEAN and type(value) is bool


def _plain_texts(found: Iterable[object]) -> bool:
    for text in found:  # noqa: SIM110 -- these are short, and a generator takes twice as long
        if type(text) is not str or "\0" in text:
            return False
    return True


def _plain_duration(value: str) -> bool:
    """A whole number of one unit, which is what nearly everybody writes."""
    count = value[:-1]
    return value[-1:] in _UNITS and count.isdecimal() and count.isascii() and count[0] != "0"


def _take(
    table: Table,
    out: Decoded,
    key: str,
    spelled: str,
    value: object,
    place: Place,
    not_acted_on: Mapping[str, str],
) -> None:
    """One key that was not surely fine: a value, or a problem."""
    known = table.keys.get(key)
    if known is None:
        out.problems.append(_unknown(table, key, place, not_acted_on))
        return
    if known[0].kind is Kind.DURATION and "off" in known[0].choices:
        value = "off" if isinstance(value, str) and value in _NO_TIME else value
    fault = _fault(known[0], known[1], value)
    if fault is None and key in out.values:
        other = out.written.get(key, key)
        fault = ("bad-value", f"is said twice, as `{other}` and as `{spelled}`", "keep one of them")
    if fault is not None:
        out.problems.append(_misfit(key, fault, place))
        return
    out.values[key] = tuple(value) if isinstance(value, list) else value
    if spelled != key:
        out.written[key] = spelled
        if not spelled.startswith(("prompt_template", "print_args")):
            out.problems.append(_older(spelled, key, place))


def decode_provider(raw: Mapping[str, object], file: str, at: KeyPath = ()) -> Decoded:
    """A provider's table, and each of the options it lists."""
    out = decode(PROVIDER, raw, file, at, not_acted_on=NOT_ACTED_ON["provider"])
    options = out.values.get("options_schema")
    for index, option in enumerate(options if isinstance(options, tuple) else ()):
        out.problems += decode(OPTION, option, file, (*at, "options_schema", index)).problems
    return out


def for_others(problem: Problem) -> Problem:
    """A problem as those see it who import the pack it is in and cannot mend it.

    What is faulty is left out, so it is a warning, unless it was to keep an agent within bounds.
    """
    path = problem.place.path if problem.place is not None else ()
    if problem.code in _NOWHERE and path:
        return problem if path[-1] in ("prompt", "prompt_template") else problem.softened()
    if problem.code not in _AUTHORS or path == ("pack",) or not _BOUNDS.isdisjoint(path):
        return problem
    return problem.softened()


def _leaves(
    table: Table, raw: Mapping[str, object], prefix: str
) -> Iterator[tuple[str, str, object]]:
    """Written keys with their dotted names, older spellings already replaced.

    A key that has a dot in its quotes is no nested one, so it gets a name that no field has.
    """
    for name, value in raw.items():
        spelled = prefix + name
        key = table.aliases.get(spelled, spelled) if "." not in name else f'"{spelled}"'
        if key in table.prefixes and key not in table.keys and isinstance(value, dict):
            yield from _leaves(table, value, key + ".")
        else:
            yield key, spelled, value


def _unknown(table: Table, key: str, place: Place, not_acted_on: Mapping[str, str]) -> Problem:
    reason = not_acted_on.get(key.partition(".")[0])
    if reason is not None:
        return warning("not-acted-on", f"`{key.partition('.')[0]}` has no effect: {reason}", place)
    if key in table.prefixes:
        return Problem("bad-type", f"`{key}` should be a table", place)
    head, _, last = key.rpartition(".")
    siblings = {
        known[len(head) + 1 if head else 0 :].partition(".")[0]
        for known in table.keys
        if not head or known.startswith(head + ".")
    }
    hint = did_you_mean(last, siblings | set() if head else siblings)
    return Problem(
        "unknown-key",
        f"`{key}` is not {_called(table)} setting",
        place,
        hint,
    )


def _called(table: Table) -> str:
    name = {"mcp": "MCP server"}.get(table.name, table.name.replace("_", " "))
    return f"{'an' if name[0] in 'aeiouM' else 'a'} {name}"


def _misfit(key: str, fault: tuple[str, str, str | None], place: Place) -> Problem:
    code, message, hint = fault
    return Problem(code, f"`{key}` {message}", Place(place.file, place.path, of_value=True), hint)


def _older(spelled: str, key: str, place: Place) -> Problem:
    return warning(
        "older-spelling", f"`{spelled}` is an older spelling of `{key}`", place, f"write `{key}`"
    )


def _fault(field: Field, edit: Edit, value: object) -> tuple[str, str, str | None] | None:
    """What is wrong with a value: code, words, hint; None when nothing is."""
    kind = Kind.STRINGS if edit is not Edit.SET else field.kind
    if kind is Kind.ANY:
        return None
    wanted = _PYTHON[kind]
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not Kind.BOOLEAN):
        return "bad-type", f"should be {kind.value}, not {describe(value)}", _cast_hint(kind, value)
    if isinstance(value, str):
        return _bad_text(field, kind, value)
    if isinstance(value, float) and not abs(value) <= _LARGEST:
        return "bad-value", f"should be a number, not {value}", None
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "bad-value", "is too large a number", None
    if isinstance(value, (int, float)) and field.minimum is not None and value < field.minimum:
        return "bad-value", f"should be at least {field.minimum}, not {value}", None
    if isinstance(value, list):
        return _bad_items(field, edit, kind, value)
    if isinstance(value, dict) and kind is Kind.STRING_MAP:
        return _bad_map(value)
    if kind is Kind.ANY_MAP and "\\x00" in repr(value):
        return "bad-value", "must not hold a NUL character", None
    return None


def _bad_text(field: Field, kind: Kind, value: str) -> tuple[str, str, str | None] | None:
    if "\0" in value:
        return "bad-value", "must not hold a NUL character", None
    if kind is Kind.DURATION:
        if value in field.choices or (
            re.match(_SEVERAL, value) and any(c in value for c in "123456789")
        ):
            return None
        return "bad-duration", f'should be {kind.value}, not "{value}"', "units: ms s m h d w"
    if field.choices and value not in field.choices:
        words = ", ".join(f'"{choice}"' for choice in field.choices if choice)
        return (
            "bad-value",
            f'should be one of {words}, not "{value}"',
            did_you_mean(value, field.choices),
        )
    return None


def _bad_items(
    field: Field, edit: Edit, kind: Kind, items: list[object]
) -> tuple[str, str, str | None] | None:
    kinds: type = dict if kind is Kind.TABLES else str
    for item in items:
        if not isinstance(item, kinds):
            return "bad-type", f"should be {kind.value}, but holds {describe(item)}", None
        if isinstance(item, str) and "\0" in item:
            return "bad-value", "must not hold a NUL character", None
        if edit is Edit.SET and field.choices and item not in field.choices:
            words = ", ".join(f'"{choice}"' for choice in field.choices)
            return "bad-value", f"should hold only {words}", None
    return None


def _bad_map(value: Mapping[str, object]) -> tuple[str, str, str | None] | None:
    for key, item in value.items():
        if not isinstance(item, str):
            text = str(item).lower() if isinstance(item, bool) else str(item)
            tellable = isinstance(item, (int, float)) and not is_secret(key)
            hint = f'write {key} = "{text}"' if tellable else None
            return "bad-type", f"should hold strings, but `{key}` is {describe(item)}", hint
        if "\0" in item or "\0" in key:
            return "bad-value", "must not hold a NUL character", None
    return None


def describe(value: object) -> str:
    """A TOML value in words, for messages."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) > _LARGEST:
            return "a huge number"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
    return "a date or time"


def _cast_hint(kind: Kind, value: object) -> str | None:
    if kind is Kind.STRINGS and isinstance(value, str):
        return f'write ["{value}"]'
    if kind is Kind.DURATION and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'write "{value}s" for seconds'
    if kind is Kind.INTEGER and isinstance(value, str) and value.lstrip("-").isdigit():
        return f"write {value} without quotes"
    if kind is Kind.BOOLEAN and isinstance(value, str) and value in ("true", "false"):
        return f"write {value} without quotes"
    return None
