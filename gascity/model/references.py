"""`${NAME}` references in values, resolved from the environment when a session starts."""

from collections.abc import Callable
from typing import NamedTuple

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_REST = _FIRST | frozenset("0123456789")


class EnvReference(NamedTuple):
    """A variable that a value refers to."""

    name: str


Part = str | EnvReference


def parts(text: str) -> list[Part]:
    """Split text into literals and references. `$${` is a literal `${`; bare `$X` is text."""
    result: list[Part] = []
    literal = ""
    at = 0
    while (dollar := text.find("$", at)) >= 0:
        literal += text[at:dollar]
        name = _name_at(text, dollar)
        if text.startswith("$${", dollar):
            literal, at = literal + "${", dollar + 3
        elif name:
            result += [literal, EnvReference(name)] if literal else [EnvReference(name)]
            literal, at = "", dollar + len(name) + 3
        else:
            literal, at = literal + "$", dollar + 1
    literal += text[at:]
    return [*result, literal] if literal else result


def _name_at(text: str, dollar: int) -> str:
    """Return the name of the reference that starts here, or ""."""
    if not text.startswith("${", dollar):
        return ""
    name, brace, _ = text[dollar + 2 :].partition("}")
    return name if brace and name[:1] in _FIRST and name and _REST.issuperset(name) else ""


def names_in(text: str) -> list[str]:
    """Return the variables a text refers to."""
    if "${" not in text:
        return []
    return [part.name for part in parts(text) if isinstance(part, EnvReference)]


def escaped(text: str) -> str:
    """Escape text so that nothing in it is a reference."""
    return text.replace("${", "$${")


def filled(text: str, resolve: Callable[[str], str | None]) -> tuple[str, list[str]]:
    """Resolve the references in a text; also return the names that are not set."""
    if "${" not in text:
        return text, []
    out, unset = "", []
    for part in parts(text):
        value = part if isinstance(part, str) else resolve(part.name)
        if value is None and isinstance(part, EnvReference):
            unset.append(part.name)
        out += value or ""
    return out, unset
