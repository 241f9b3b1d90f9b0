"""Reads the documents of a source: Markdown with front matter, JSON with comments, and TOML.

Each function reports a document that cannot be read at its line and column and returns None.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from gascity.jsonc.tree import JsoncError, JsonNode, JsonPart, tree
from gascity.model.document_text import position
from gascity.model.fields import AGENT
from gascity.model.front_matter import Opaque, read_front_matter
from gascity.source.decode import decode
from gascity.toml.edit import set_fields
from gascity.toml.positions import locate
from gascity.toml.read import TomlError, parse_text
from gascity_migrate.importers.types import Findings

BAD_FRONT_MATTER = "bad-front-matter"
BAD_JSON = "bad-json"
# Published agents often have unquoted text with a colon; their tools read it, so it is read here.
_TOLERATED = "unquoted text contains"
_BLOCK = re.compile(r"\ufeff?---[ \t\r]*\n(?:.*?\n)??---[ \t]*\r?(?:\n|\Z)", re.DOTALL)


class Lines(Protocol):
    """The lines of keys; the key of an inner table is written after a dot."""

    def get(self, key: str, default: int, /) -> int: ...


class Keys:
    """The keys of one table in a document; what is not taken is lost or kept by the caller."""

    def __init__(
        self,
        findings: Findings,
        path: str,
        values: Mapping[str, object],
        lines: Lines,
        prefix: str = "",
    ) -> None:
        self.findings = findings
        self.path = path
        self.values = dict(values)
        self._lines = lines
        self._prefix = prefix

    def line(self, key: str) -> int:
        """Return the line of a key, or of the table that it is in."""
        return self._lines.get(key, 0) or self._lines.get(key.partition(".")[0], 1)

    def lose(self, key: str, reason: str) -> None:
        self.values.pop(key, None)
        self.note(key, reason)

    def note(self, key: str, reason: str) -> None:
        """Record the loss of a part of a value, which is taken all the same."""
        self.findings.lose(self.path, self.line(key), self._prefix + key, reason)

    def lose_rest(self, reason: str = "it has no counterpart") -> None:
        for key in list(self.values):
            self.lose(key, reason)

    def inner(self, key: str, values: object) -> "Keys":
        """Return the keys of an inner table; all have the line of its own key."""
        table = values if isinstance(values, dict) else {}
        lines = dict.fromkeys(table, self.line(key))
        return Keys(self.findings, self.path, table, lines, f"{self._prefix}{key}.")

    def text(self, key: str) -> str:
        """Take a text, "" if it is absent. A number is text, too: YAML does not tell them apart."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self._refuse(key, "expected text")
            return ""
        return str(self.values.pop(key))

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._refuse(key, "expected a number")
            return None
        self.values.pop(key)
        return value

    def integer(self, key: str) -> int | None:
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self._refuse(key, "expected a positive integer")
            return None
        self.values.pop(key)
        return value

    def flag(self, key: str) -> bool | None:
        value = self.values.get(key)
        if not isinstance(value, bool):
            self._refuse(key, "expected true or false")
            return None
        self.values.pop(key)
        return value

    def words(self, key: str) -> tuple[str, ...] | None:
        """Take a list of words, or a text with commas between them; None if it is absent."""
        value = self.values.get(key)
        if isinstance(value, str):
            self.values.pop(key)
            return tuple(_split(value))
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            self.values.pop(key)
            return tuple(value)
        self._refuse(key, "expected a list of words")
        return None

    def texts(self, key: str) -> dict[str, str]:
        """Take a table of texts."""
        value = self.values.get(key)
        if isinstance(value, dict) and not any(isinstance(v, (dict, list)) for v in value.values()):
            self.values.pop(key)
            return {name: _plain(text) for name, text in value.items()}
        self._refuse(key, "expected a table of texts")
        return {}

    def table(self, key: str) -> dict[str, object] | None:
        value = self.values.get(key)
        if isinstance(value, dict):
            self.values.pop(key)
            return value
        self._refuse(key, "expected a table")
        return None

    def _refuse(self, key: str, expected: str) -> None:
        if self.values.get(key) is not None:
            self.lose(key, expected)
        self.values.pop(key, None)


def _split(text: str) -> Iterator[str]:
    """Split at commas that are not inside parentheses."""
    for word in re.split(r",(?![^(]*\))", text):
        if word.strip():
            yield word.strip()


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def valid_settings(
    keys: Keys, settings: Mapping[str, object], written: Mapping[str, str] = {}
) -> dict[str, object]:
    """Return the settings that an agent can have, and record the others as lost.

    `written` has the key of each setting in the document, unless it is the setting's own name.
    """
    valid = {}
    for setting, value in settings.items():
        table, _, name = setting.rpartition(".")
        raw: dict[str, object] = {table: {name: value}} if table else {name: value}
        errors = [each for each in decode(AGENT, raw, keys.path).problems if each.is_error]
        for error in errors:
            keys.note(written.get(setting, setting), error.message.partition("` ")[2])
        if not errors:
            valid[setting] = value
    return valid


class MarkdownFile(NamedTuple):
    """A Markdown file: the keys of its front matter, and the bytes below it."""

    keys: Keys
    body: bytes


def read_markdown(findings: Findings, path: str) -> MarkdownFile | None:
    text = findings.text(path)
    if text is None:
        return None
    block = _BLOCK.match(text)
    if block is None:
        if text.removeprefix("\ufeff").startswith("---"):
            findings.refuse(BAD_FRONT_MATTER, "the front matter is not closed with `---`", path)
            return None
        return MarkdownFile(Keys(findings, path, {}, {}), text.encode())
    matter = read_front_matter(text)
    if matter is None or (matter.error and not matter.error.startswith(_TOLERATED)):
        line = matter.error_line if matter else 1
        words = matter.error if matter else "expected `key: value`"
        findings.refuse(BAD_FRONT_MATTER, f"invalid front matter: {words}", path, line)
        return None
    keys = Keys(findings, path, matter.values, matter.lines)
    for key, value in matter.values.items():
        if isinstance(value, Opaque):
            keys.lose(key, "anchors and tags are not read")
    return MarkdownFile(keys, text[block.end() :].encode())


class JsonDocument(NamedTuple):
    """A JSON document; it knows the line of every value."""

    text: str
    root: JsonNode

    def node(self, *path: str | int) -> JsonNode | None:
        node: JsonNode | None = self.root
        for name in path:
            parts = node.parts if node else ()
            node = next((part.node for part in parts if part.name == name), None)
        return node

    def line(self, *path: str | int) -> int:
        node = self.node(*path)
        return position(self.text, node.start)[0] if node else 1

    def keys(self, findings: Findings, file: str, *path: str | int, prefix: str = "") -> Keys:
        """Return the members of the object at a path; none if there is no object."""
        node = self.node(*path)
        values = node.value if node and isinstance(node.value, dict) else {}
        return Keys(findings, file, values, _JsonLines(self.text, node), prefix)


class _JsonLines(NamedTuple):
    """The lines of an object's members, looked up when they are asked for."""

    text: str
    node: JsonNode | None

    def get(self, key: str, default: int, /) -> int:
        outer, _, inner = key.partition(".")
        part = _part(self.node, key)
        if part is None and inner:
            table = _part(self.node, outer)
            part = _part(table.node, inner) if table else None
        return position(self.text, part.start)[0] if part else default


def _part(node: JsonNode | None, name: str) -> JsonPart | None:
    return next((part for part in (node.parts if node else ()) if part.name == name), None)


def read_json(findings: Findings, path: str) -> JsonDocument | None:
    """Read a file that must contain an object."""
    text = findings.text(path)
    if text is None:
        return None
    try:
        root = tree(text)
    except JsoncError as error:
        findings.refuse(BAD_JSON, str(error), path, error.line, error.col)
        return None
    if root is None or not isinstance(root.value, dict):
        findings.refuse(BAD_JSON, "expected an object", path)
        return None
    return JsonDocument(text, root)


def read_toml(findings: Findings, path: str) -> tuple[str, dict[str, object]] | None:
    """Return a TOML file's text and values."""
    text = findings.text(path)
    if text is None:
        return None
    try:
        return text, parse_text(text)
    except TomlError as error:
        findings.refuse(error.code, str(error), path, error.line, error.col, error.hint or "")
        return None


def toml_keys(findings: Findings, path: str, text: str, values: object, *at: str) -> Keys:
    """Return the keys of a table in a TOML file, with their lines."""
    table = values if isinstance(values, dict) else {}
    lines = _TomlLines(text, table, at)
    return Keys(findings, path, table, lines, ".".join((*at, "")) if at else "")


class _TomlLines(NamedTuple):
    """The lines of a table's keys, looked up when they are asked for."""

    text: str
    table: Mapping[str, object]
    at: tuple[str, ...]

    def get(self, key: str, _: int, /) -> int:
        path = (key,) if key in self.table else key.split(".", 1)
        return locate(self.text, (*self.at, *path))[0]


def pack_text(name: str) -> str:
    """Return the pack.toml of a new pack."""
    return set_fields("[pack]\n", {"pack.name": name, "pack.schema": 2})
