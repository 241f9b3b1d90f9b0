"""Decodes parsed TOML tables into settings: checks every key and value, reports all problems.

Nearly all settings of a city are valid, and a city may have 10,000 agents. So `decode` first takes
what is valid at first sight (`_take_valid`, a few type checks per key), and only what is left goes
through the checks that can explain what is wrong.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from gascity.model.fields import Edit, Field, Kind, Table
from gascity.model.layers import Layer
from gascity.model.names import did_you_mean, near
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.secrets import is_secret
from gascity.model.tables import DIALOG, NOT_ACTED_ON, OPTION, PROVIDER
from gascity.model.values import TableView, as_list
from gascity.toml.read import LARGEST, describe

_DURATIONS = r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+\Z"

# A variable as a shell would expand it; here only ${NAME} is expanded.
_BARE = r"\$[A-Z_][A-Z0-9_]*\b"
_ENV_HINTS = {
    "agent": "write ${NAME} for a variable of the host",
    "provider": "sessions inherit the host's variables; use ${NAME} in an agent's `env`",
    "workspace": "sessions inherit the host's variables; use ${NAME} in an agent's `env`",
}

# Published packs write these for "off".
_NO_TIME = frozenset(("", "0", "0ms", "0s", "0m", "0h"))
# Looking up a member of an enumeration takes longer than most checks.
_SET = Edit.SET
_STRING, _STRINGS, _STRING_MAP = Kind.STRING, Kind.STRINGS, Kind.STRING_MAP
_DURATION, _INTEGER, _BOOLEAN = Kind.DURATION, Kind.INTEGER, Kind.BOOLEAN

_UNITS = ("s", "m", "h", "d", "w")

_NUL = "must not contain a NUL character"
_ValueError = tuple[str, str, str | None]  # code, message after the key's name, hint

# Problems that only the author of a pack can fix; the setting is left out.
_AUTHORS = frozenset(
    "unknown-key bad-type bad-value bad-duration bad-name missing-key name-mismatch two-prompts "
    "duplicate-name no-prompt".split()
)
_NOWHERE = frozenset(("missing-file", "path-leaves-pack", "link-leaves-pack"))
# Leaving out a setting of these tables, or one of these settings, would let an agent do more than
# its author intended, or let more callers use it.
_BOUNDS = frozenset("tools capabilities skills_filter mcp_filter agents_filter limits".split())
_BOUND_SETTINGS = frozenset("execution suspended hidden gateway".split())

_PYTHON: Mapping[Kind, type | tuple[type, ...]] = {
    Kind.STRING: str,
    Kind.PATH: str,
    Kind.COLOR: str,
    Kind.DURATION: str,
    Kind.INTEGER: int,
    Kind.NUMBER: (int, float),
    Kind.BOOLEAN: bool,
    Kind.STRINGS: list,
    Kind.TABLES: list,
    Kind.STRING_MAP: dict,
    Kind.ANY_MAP: dict,
}

# Provider facts that are regular expressions.
_PATTERN_FIELDS = frozenset(
    "conversation.pattern limits.rate_limit_pattern mcp.name_pattern tools.own_words"
    " terminal.before terminal.after terminal.above terminal.below terminal.below2"
    " terminal.below3 terminal.suggestion terminal.not_ready terminal.pasted".split()
)


class Decoded:
    """One decoded table, without its invalid keys. `written` maps keys to older spellings in it."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.written: dict[str, str] = {}
        self.problems: list[Problem] = []

    def layer(self, kind: str, file: str, at: KeyPath = ()) -> Layer:
        """Return the values as a layer."""
        return Layer(kind, file, self.values, at, self.written or None)


def decode(
    table: Table,
    raw: Mapping[str, object],
    file: str,
    at: KeyPath = (),
    *,
    not_acted_on: Mapping[str, str] | None = None,
    handled: frozenset[str] = frozenset(),
) -> Decoded:
    """Check a table against its fields. Keys in `handled` are read by the caller."""
    out = Decoded()
    rest = _take_valid(table, raw, "", out.values, handled)
    for key, spelled, value in _leaves(table, rest, "") if rest else ():
        path = spelled.split(".") if spelled.partition(".")[0] in rest else [spelled]
        _take(table, out, key, spelled, value, Place(file, (*at, *path)), not_acted_on or {})
    for field in table.required:
        if field.name not in out.values and field.name not in raw:
            message = f"`{field.name}` is missing: {field.doc}"
            out.problems.append(Problem("missing-key", message, Place(file, at)))
    env = out.values.get("env")
    if isinstance(env, dict) and table.name in _ENV_HINTS:
        for key, value in env.items():
            if "$" in value and re.search(_BARE, value):
                message = f"`env.{key}`: `$NAME` is not expanded"  # not its value: maybe a secret
                place = Place(file, (*at, "env", key))
                hint = _ENV_HINTS[table.name]
                out.problems.append(warning("bare-reference", message, place, hint))
    if table.name == "notify":
        _check_webhook(out, file, at)
    return out


def _check_webhook(out: Decoded, file: str, at: KeyPath) -> None:
    webhook = out.values.get("webhook")
    if isinstance(webhook, str) and not webhook.startswith(("https://", "http://", "${")):
        del out.values["webhook"]
        place = Place(file, (*at, "webhook"), of_value=True)
        hint = "write `https://host/path`, or `${NAME}` for a variable that contains it"
        out.problems.append(Problem("bad-url", "`webhook` is not a valid address", place, hint))


def _take_valid(
    table: Table,
    raw: Mapping[str, object],
    prefix: str,
    values: dict[str, object],
    handled: frozenset[str],
) -> dict[str, object]:
    """Take the keys that are valid at first sight, and return the others."""
    rest: dict[str, object] = {}
    keys = table.keys
    for name, value in raw.items():
        if name in handled and not prefix:
            continue
        key = prefix + name
        known = keys.get(key)
        if known is not None and "." not in name and _is_surely_valid(known[0], known[1], value):
            values[key] = tuple(value) if type(value) is list else value
        elif known is None and type(value) is dict and key in table.prefixes:
            inner = _take_valid(table, value, key + ".", values, handled)
            if inner:
                rest[name] = inner
        else:
            rest[name] = value
    return rest


def _is_surely_valid(field: Field, edit: Edit, value: object) -> bool:
    """Is this a common valid value? False only means that it needs a closer look."""
    kind = field.kind
    if type(value) is list:
        return kind is _STRINGS and not field.choices and _are_texts(value)
    if edit is not _SET:
        return False
    if type(value) is str:
        if field.choices:
            return value in field.choices or (kind is _DURATION and _is_simple_duration(value))
        return (
            "\0" not in value
            if kind is _STRING
            else kind is _DURATION and _is_simple_duration(value)
        )
    if type(value) is dict:
        return kind is _STRING_MAP and _are_texts(value) and _are_texts(value.values())
    if type(value) is int:
        return kind is _INTEGER and (field.minimum or 0) <= value <= LARGEST
    return kind is _BOOLEAN and type(value) is bool


def _is_color(value: str) -> bool:
    digits = value.removeprefix("#")
    if digits != value:
        return len(digits) == 6 and set(digits) <= set("0123456789abcdefABCDEF")
    return value.isascii() and value.isalpha()


def _are_texts(values: Iterable[object]) -> bool:
    for text in values:  # noqa: SIM110 -- these are short, and a generator takes twice as long
        if type(text) is not str or "\0" in text:
            return False
    return True


def _is_simple_duration(value: str) -> bool:
    """Is this a whole number of one unit? Nearly all durations are."""
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
    """Add the value of one key, or the problem with it."""
    known = table.keys.get(key)
    if known is None:
        out.problems.append(_unknown(table, key, place, not_acted_on))
        return
    if known[0].kind is Kind.DURATION and "off" in known[0].choices:
        value = "off" if isinstance(value, str) and value in _NO_TIME else value
    if known[0].kind is Kind.STRING_MAP and isinstance(value, dict):
        in_map = list(_map_problems(key, value, place))
        if in_map:
            out.problems += in_map
            return
    error = _value_error(known[0], known[1], value)
    if error is None and key in out.values:
        first = out.written.get(key, key)
        message = f"is set twice, as `{first}` and as `{spelled}`"
        error = ("bad-value", message, "keep one of them")
    if error is not None:
        out.problems.append(_value_problem(key, error, place))
        return
    out.values[key] = tuple(value) if isinstance(value, list) else value
    if spelled != key:
        out.written[key] = spelled
        if not spelled.startswith(("prompt_template", "print_args")):
            out.problems.append(_older_spelling(spelled, key, place))


def decode_provider(
    raw: Mapping[str, object], file: str, at: KeyPath = (), *, shipped: bool = False
) -> Decoded:
    """Decode a provider's table, its options and dialogs.

    Patterns of shipped providers are compiled by tests, not by every command.
    """
    out = decode(PROVIDER, raw, file, at, not_acted_on=NOT_ACTED_ON["provider"])
    for key, table in (("options_schema", OPTION), ("terminal.dialogs", DIALOG)):
        for index, entry in enumerate(TableView(out.values).tables(key)):
            path = (*at, *key.split("."), index)
            problems = decode(table, entry.values, file, path).problems
            if not shipped:
                patterns = {"pattern": entry.values.get("pattern")}
                problems += _pattern_problems(patterns, file, path).values()
            out.problems += problems
            if problems and table is DIALOG:
                out.values.pop(key, None)
    if not shipped:
        patterns = {key: value for key, value in out.values.items() if key in _PATTERN_FIELDS}
        for key, problem in _pattern_problems(patterns, file, at).items():
            out.problems.append(problem)
            del out.values[key]
    return out


def _pattern_problems(values: Mapping[str, object], file: str, at: KeyPath) -> dict[str, Problem]:
    """Return a problem for each key whose value is not a regular expression."""
    problems = {}
    for key, value in values.items():
        for pattern in as_list(value, [value]):
            try:
                re.compile(str(pattern or ""))
            except re.error as error:
                place = Place(file, (*at, *key.split(".")), of_value=True)
                message = f"`{key}` is not a regular expression: {error}"
                problems[key] = Problem("bad-value", message, place)
    return problems


def for_others(problem: Problem) -> Problem:
    """Return the problem as users of the pack see it, who cannot fix it.

    The invalid setting is left out, so it becomes a warning, unless it was to restrict an agent.
    """
    path = problem.place.path if problem.place is not None else ()
    if problem.code in _NOWHERE and path:
        return problem if path[-1] in ("prompt", "prompt_template") else problem.softened()
    if problem.code not in _AUTHORS or path == ("pack",) or _is_bound(problem.code, path):
        return problem
    return problem.softened()


def _is_bound(code: str, path: KeyPath) -> bool:
    """Is this the place of a setting that restricts an agent, maybe with its table misspelt?"""
    if not path or not _BOUNDS.isdisjoint(path):
        return bool(path)
    last = str(path[-1])
    if code == "unknown-key":
        return any(last[0] == bound[0] for bound in near(last, _BOUNDS)) if last else False
    return last in _BOUND_SETTINGS and path[0] in ("patches", "agent_defaults", "agent", last)


def _leaves(
    table: Table, raw: Mapping[str, object], prefix: str
) -> Iterator[tuple[str, str, object]]:
    """Yield dotted key, spelling and value of each setting, older spellings replaced.

    A quoted key with a dot is not a nested one, so it gets a name that no field has.
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
    message = f"`{key}` is not {_table_name(table)} setting"
    return Problem("unknown-key", message, place, did_you_mean(last, siblings))


def _table_name(table: Table) -> str:
    name = {"mcp": "MCP server"}.get(table.name, table.name.replace("_", " "))
    return f"{'an' if name[0] in 'aeiouM' else 'a'} {name}"


def _value_problem(key: str, error: _ValueError, place: Place) -> Problem:
    code, message, hint = error
    return Problem(code, f"`{key}` {message}", Place(place.file, place.path, of_value=True), hint)


def _older_spelling(spelled: str, key: str, place: Place) -> Problem:
    return warning(
        "older-spelling", f"`{spelled}` is an older spelling of `{key}`", place, f"write `{key}`"
    )


def _value_error(field: Field, edit: Edit, value: object) -> _ValueError | None:
    """Return what is wrong with a value."""
    kind = Kind.STRINGS if edit is not Edit.SET else field.kind
    if kind is Kind.ANY:
        return None
    if not isinstance(value, _PYTHON[kind]) or (
        isinstance(value, bool) and kind is not Kind.BOOLEAN
    ):
        return "bad-type", f"should be {kind.value}, not {describe(value)}", _cast_hint(kind, value)
    match value:
        case str():
            return _bad_text(field, kind, value)
        case float() if not abs(value) <= LARGEST:
            return "bad-value", f"should be a number, not {value}", None
        case int() if abs(value) > LARGEST:
            return "bad-value", "is too large", None
        case int() | float() if field.minimum is not None and value < field.minimum:
            return "bad-value", f"should be at least {field.minimum}, not {value}", None
        case int() | float() if field.maximum is not None and value > field.maximum:
            return "bad-value", f"should be at most {field.maximum}, not {value}", None
        case list():
            return _bad_items(field, edit, kind, value)
        case dict() if "\\x00" in repr(value):
            return "bad-value", _NUL, None
    return None


def _bad_text(field: Field, kind: Kind, value: str) -> _ValueError | None:
    if "\0" in value:
        return "bad-value", _NUL, None
    if kind is Kind.COLOR and not _is_color(value):
        return "bad-value", f'should be {kind.value}, not "{value}"', None
    if kind is Kind.DURATION:
        if value in field.choices or (
            re.match(_DURATIONS, value) and any(c in value for c in "123456789")
        ):
            return None
        return "bad-duration", f'should be {kind.value}, not "{value}"', "units: ms s m h d w"
    if field.choices and value not in field.choices:
        choices = ", ".join(f'"{choice}"' for choice in field.choices if choice)
        return (
            "bad-value",
            f'should be one of {choices}, not "{value}"',
            did_you_mean(value, field.choices),
        )
    return None


def _bad_items(field: Field, edit: Edit, kind: Kind, items: list[object]) -> _ValueError | None:
    kinds: type = dict if kind is Kind.TABLES else str
    for item in items:
        if not isinstance(item, kinds):
            return "bad-type", f"should be {kind.value}, but contains {describe(item)}", None
        if isinstance(item, str) and "\0" in item:
            return "bad-value", _NUL, None
        if edit is Edit.SET and field.choices and item not in field.choices:
            choices = ", ".join(f'"{choice}"' for choice in field.choices)
            return "bad-value", f"should contain only {choices}", None
    return None


def _map_problems(key: str, value: Mapping[str, object], place: Place) -> Iterator[Problem]:
    """Yield a problem for each value of a map that is not a string, at its own line."""
    for name, item in value.items():
        error: _ValueError | None = None
        if not isinstance(item, str):
            text = str(item).lower() if isinstance(item, bool) else str(item)
            is_public = isinstance(item, (int, float)) and not is_secret(name)
            hint = f'write {name} = "{text}"' if is_public else None
            error = "bad-type", f"should be a string, not {describe(item)}", hint
        elif "\0" in item or "\0" in name:
            error = "bad-value", _NUL, None
        if error is not None:
            at = place._replace(path=(*place.path, name))
            yield _value_problem(f"{key}.{name}", error, at)


def _cast_hint(kind: Kind, value: object) -> str | None:
    match kind, value:
        case Kind.STRINGS, str():
            return f'write ["{value}"]'
        case Kind.DURATION, (int() | float()) if type(value) is not bool:
            return f'write "{value}s" for seconds'
        case (Kind.INTEGER, str(text)) if text.lstrip("-").isdigit():
            return f"write {text} without quotes"
        case Kind.BOOLEAN, "true" | "false":
            return f"write {value} without quotes"
    return None
