"""`${NAME}` in a value: a variable of the launch's environment, known by name until then."""

from collections.abc import Callable

from gascity.model.records import NamedTuple

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_REST = _FIRST | frozenset("0123456789")


class Reference(NamedTuple):
    """A variable that a value names."""

    name: str


Part = str | Reference


def parts(text: str) -> list[Part]:
    """Literal texts and references, in order. `$${` is a literal `${`; bare `$X` is text."""
    found: list[Part] = []
    literal = ""
    at = 0
    while (dollar := text.find("$", at)) >= 0:
        literal += text[at:dollar]
        name = _name_at(text, dollar)
        if text.startswith("$${", dollar):
            literal, at = literal + "${", dollar + 3
        elif name:
            found += [literal, Reference(name)] if literal else [Reference(name)]
            literal, at = "", dollar + len(name) + 3
        else:
            literal, at = literal + "$", dollar + 1
    literal += text[at:]
    return [*found, literal] if literal else found


def _name_at(text: str, dollar: int) -> str:
    """The name of a reference that begins here, or nothing."""
    if not text.startswith("${", dollar):
        return ""
    name, brace, _ = text[dollar + 2 :].partition("}")
    return name if brace and name[:1] in _FIRST and name and _REST.issuperset(name) else ""


def names_in(text: str) -> list[str]:
    """The variables a text refers to."""
    if "${" not in text:
        return []
    return [part.name for part in parts(text) if isinstance(part, Reference)]


def written(text: str) -> str:
    """A literal text as it has to be written so that nothing in it is a reference."""
    return text.replace("${", "$${")


def filled(text: str, resolve: Callable[[str], str | None]) -> tuple[str, list[str]]:
    """The text with its references resolved, and the names of those that are not set."""
    if "${" not in text:
        return text, []
    out, unset = "", []
    for part in parts(text):
        value = part if isinstance(part, str) else resolve(part.name)
        if value is None and isinstance(part, Reference):
            unset.append(part.name)
        out += value or ""
    return out, unset
