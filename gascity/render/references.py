"""How providers write a variable of the environment, and what they would take for one."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.references import Reference, parts
from gascity.model.secrets import is_secret

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


class Syntax(NamedTuple):
    """Where a provider expands text, what it expands, and how text is kept from that."""

    reference: str
    places: frozenset[str]
    expands: re.Pattern[str] | None
    escape: Mapping[str, str]


PLAIN = Syntax("", frozenset(), None, {})  # of a place where text is just text


def syntax_of(provider: Provider) -> Syntax:
    """The provider's facts about references."""
    escape = tuple(sorted(provider.pairs("mcp.escape").items()))
    return _syntax(
        provider.text("mcp.reference"),
        provider.strings("mcp.expands_in"),
        provider.strings("mcp.expands"),
        escape,
    )


@lru_cache(maxsize=64)
def _syntax(
    reference: str,
    places: tuple[str, ...],
    expands: tuple[str, ...],
    escape: tuple[tuple[str, str], ...],
) -> Syntax:
    patterns = "|".join(map(_pattern, expands))
    pattern = re.compile(patterns) if patterns else None
    return Syntax(reference, frozenset(places), pattern, dict(escape))


def _pattern(shape: str) -> str:
    """A regular expression for `$X`, `${X}` or `{env:X}`; inside braces anything may follow."""
    head, _, tail = shape.partition("X")
    name = f"[^{re.escape(tail[0])}]+" if tail else "[A-Za-z_][A-Za-z0-9_]*"
    return re.escape(head) + name + re.escape(tail)


class NotWritable(Exception):
    """A value that a provider's file cannot hold; `code` says why."""

    def __init__(self, code: str, place: str, name: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.place = place
        self.name = name


class Writer:
    """Writes the values of one server, and remembers what it had to write out."""

    def __init__(self, syntax: Syntax, resolve: Callable[[str], str | None]) -> None:
        self.syntax = syntax
        self.resolve = resolve
        self.references: list[str] = []
        self.literals: list[str] = []
        self.secrets: set[str] = set()

    def text(self, place: str, value: str, key: str = "", *, shell: bool = False) -> str:
        """A value in the provider's own syntax; with `shell`, as one word of a shell's line.

        Raises NotWritable for what would be expanded, or is not set where it has to be.
        """
        pieces = [self._piece(place, key, part) for part in parts(value)]
        self._refuse_expansion(place, pieces)
        if not shell:
            return "".join(text for text, _ in pieces)
        if not any(is_reference for _, is_reference in pieces):
            return sh_quoted("".join(text for text, _ in pieces))
        return f'"{"".join(text if by_name else _in_quotes(text) for text, by_name in pieces)}"'

    def _piece(self, place: str, key: str, part: str | Reference) -> tuple[str, bool]:
        """A part as written, and whether it still names its variable."""
        expands = place in self.syntax.places
        if isinstance(part, Reference):
            if expands and self.syntax.reference:
                self.references.append(part.name)
                return self.syntax.reference.replace("NAME", part.name), True
            part = self._written_out(place, key, part.name)
        if expands:
            for text, protected in self.syntax.escape.items():
                part = part.replace(text, protected)
        return part, False

    def _written_out(self, place: str, key: str, name: str) -> str:
        value = self.resolve(name)
        if value is None:
            raise NotWritable("missing-env", place, name)
        self.literals.append(name)
        if value and (is_secret(name) or is_secret(key)):
            self.secrets.add(value)
        return value

    def _refuse_expansion(self, place: str, pieces: list[tuple[str, bool]]) -> None:
        """Nothing but our own references may look like one to the provider."""
        expands = self.syntax.expands
        if place not in self.syntax.places or self.syntax.escape or expands is None:
            return
        whole = "".join(text for text, _ in pieces)
        ours, at = set(), 0
        for text, by_name in pieces:
            if by_name:
                ours.add((at, at + len(text)))
            at += len(text)
        for found in expands.finditer(whole):
            if found.span() not in ours:
                raise NotWritable("would-expand", place)


def sh_quoted(text: str) -> str:
    """A text as one word of a shell's line."""
    if text and _SAFE.issuperset(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _in_quotes(text: str) -> str:
    return re.sub(r'([$`"\\])', r"\\\1", text)
