"""Edit single values of JSON with comments (JSONC), and preserve every other byte.

An edit finds the span of a value in the parsed tree and replaces just that span, laid out in the
style of the text around it. A text of only blanks and comments counts as `{}`. A path consists of
object keys and, as numbers, list indexes. Of a duplicate key the last one counts.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.jsonc.tree import JsoncError as JsoncError
from gascity.jsonc.tree import (
    JsonNode,
    JsonPart,
    JsonPath,
    cached_tree,
    find,
    last_part,
    leaves_of,
    tree,
)
from gascity.model.document_text import BOM, line_start, same

_ABSENT = object()

# Compiled where they are used, which few edits do.
_COMMENT = r"//[^\n]*?(?=\r?\n|\Z)|/\*.*?\*/"
_REST_OF_LINE = r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\n]*)?\r?\n"


class _Style(NamedTuple):
    """The layout of a text; the indent `unit` is empty if everything is on one line."""

    newline: str
    unit: str
    colon: str

    @property
    def comma(self) -> str:
        return ", " if self.colon.endswith(" ") else ","


def parse(text: str) -> object:
    """Return the value of a text. Raises JsoncError if it is not valid JSON."""
    root = tree(text)
    return {} if root is None else root.value


def leaves(text: str) -> Iterator[tuple[JsonPath, int, int]]:
    """Yield path, start and end of every value without parts, duplicate keys included."""
    root = cached_tree(text)
    return iter(()) if root is None else leaves_of(root, ())


def put(text: str, path: JsonPath, value: object) -> str:
    """Set the value at `path`; missing parents are added at the end."""
    root = cached_tree(text)
    if root is None:
        text = _with_root(text)
        root = cached_tree(text)
    assert root is not None
    style = _style(text, root)
    node = root
    for depth, name in enumerate(path):
        part = last_part(text, node, name, path[:depth])
        if part is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _insert(text, node, name, value, style)
        node = part.node
    if same(node.value, value):
        return text
    flat = bool(node.parts) and "\n" not in text[node.start : node.end]
    written = _dump(value, style._replace(unit="") if flat else style, _indent(text, node.start))
    return text[: node.start] + written + text[node.end :]


def drop(text: str, path: JsonPath) -> str:
    """Remove the value at `path`, with its comma and a comment after it on the same line."""
    found = find(text, path)
    while found:
        text = _cut(text, *found)
        # Of a duplicate key the other one would become effective.
        found = find(text, path) if isinstance(path[-1], str) else None
    return text


def change(text: str, path: JsonPath, before: object, after: object) -> str:
    """Change the value at `path` from `before` to `after` with as few edits as possible."""
    if same(before, after):
        return text
    match before, after:
        case Mapping(), Mapping():
            for key in before:
                if key not in after:
                    text = drop(text, (*path, key))
            for key, value in after.items():
                text = change(text, (*path, key), before.get(key, _ABSENT), value)
            return text
        case list(), list() | tuple():
            return _change_list(text, path, before, after)
    return put(text, path, after)


def is_empty(text: str, path: JsonPath) -> bool:
    """Return whether `path` is an object or list without any content, also no comment."""
    found = find(text, path)
    node = found[1].node if found else None
    return bool(node and not node.parts and not text[node.start : node.end].strip("{[]} \t\r\n"))


def _with_root(text: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip(BOM).strip():
        return f"{BOM if text.startswith(BOM) else ''}{{}}{newline}"
    return f"{text}{'' if text.endswith(newline) else newline}{{}}{newline}"


def _style(text: str, root: JsonNode) -> _Style:
    parts = list(_all_parts(root))
    newline = "\r\n" if "\r\n" in text else "\n"
    colons = (text[part.key_end : part.node.start] for _, part in parts)
    colon = next((between for between in colons if between.strip(" ") == ":"), ": ")
    units = (unit for holder, part in parts if (unit := _unit(text, holder, part)))
    one_line = root.parts and "\n" not in text[root.start : root.end]
    return _Style(newline, "" if one_line else next(units, "  "), colon)


def _all_parts(node: JsonNode) -> Iterator[tuple[JsonNode, JsonPart]]:
    for part in node.parts:
        yield node, part
        yield from _all_parts(part.node)


def _unit(text: str, holder: JsonNode, part: JsonPart) -> str:
    outer, inner = _indent(text, holder.start), _indent(text, part.start)
    fits = _begins_line(text, part.start) and inner.startswith(outer)
    return inner[len(outer) :] if fits else ""


def _indent(text: str, at: int) -> str:
    """Return the indent of the line at this offset."""
    line = text[line_start(text, at) : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, at: int) -> bool:
    return not text[line_start(text, at) : at].strip(" \t")


def _dump(value: object, style: _Style, indent: str) -> str:
    separators = ("," if style.unit else style.comma, style.colon)
    written = json.dumps(
        _plain(value),
        indent=style.unit or None,
        ensure_ascii=False,
        allow_nan=False,
        separators=separators,
    )
    if not written.isascii():  # a lone surrogate cannot be written as UTF-8
        written = re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", written)
    return written.replace("\n", style.newline + indent)


def _plain(value: object) -> object:
    match value:
        case Mapping():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    return value


def _change_list(
    text: str, path: JsonPath, before: Sequence[object], after: Sequence[object]
) -> str:
    """Remove and add single items if possible, so that the others keep their comments."""
    removed = [i for i, item in enumerate(before) if not any(same(item, new) for new in after)]
    kept = [item for i, item in enumerate(before) if i not in removed]
    if kept and same(kept, after[: len(kept)]):
        for index in reversed(removed):
            text = drop(text, (*path, index))
        for index in range(len(kept), len(after)):
            text = put(text, (*path, index), after[index])
        return text
    if len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            text = change(text, (*path, index), old, new)
        return text
    return put(text, path, after)


def _insert(text: str, node: JsonNode, name: str | int, value: object, style: _Style) -> str:
    """Add a part after the existing ones, laid out like the last of them."""
    last = node.parts[-1] if node.parts else None
    begin = max(last.node.end, last.comma + 1) if last else node.start + 1
    gap = text[begin : node.end - 1]
    comments = re.finditer(_COMMENT, gap, re.DOTALL) if "/" in gap else ()
    kept = gap[: max((match.end() for match in comments), default=0)]
    outer = _indent(text, node.start)
    if last and _begins_line(text, last.start):
        inner, expanded = _indent(text, last.start), True
    else:
        inner, expanded = outer + style.unit, "\n" in gap or (not last and style.unit != "")
    if not expanded:
        style = style._replace(unit="")
    key = _dump(name, style, "") + style.colon if isinstance(name, str) else ""
    member = key + _dump(value, style, inner) + ("," if last and last.comma >= 0 else "")
    comma = "," if last and last.comma < 0 else ""
    closing = gap[len(kept) :] if last or kept else ""
    if not expanded:
        space = style.comma[1:] if last else ""
        return text[:begin] + kept + comma + space + member + closing + text[node.end - 1 :]
    if "\n" not in closing:
        closing = style.newline + outer
    line = style.newline + inner + member
    return text[:begin] + comma + kept + line + closing + text[node.end - 1 :]


def _cut(text: str, parent: JsonNode, part: JsonPart) -> str:
    """Remove a part; the comma before it too if none follows it."""
    index = parent.parts.index(part)
    spans = _spans(text, part, is_last=index == len(parent.parts) - 1)
    if index and part.comma < 0:
        comma = parent.parts[index - 1].comma
        spans.insert(0, (comma, comma + 1))
    for begin, end in reversed(spans):
        text = text[:begin] + text[end:]
    if len(parent.parts) == 1:
        close = parent.end - 1 - sum(end - begin for begin, end in spans)
        if not text[parent.start + 1 : close].strip():
            text = text[: parent.start + 1] + text[close:]
    return text


def _spans(text: str, part: JsonPart, *, is_last: bool) -> list[tuple[int, int]]:
    """Return the spans to remove for a part: its whole lines, or just the part."""
    end = part.comma + 1 if part.comma >= 0 else part.node.end
    rest = re.compile(_REST_OF_LINE).match(text, end)
    if rest and _begins_line(text, part.start) and "\n" not in text[part.node.end : end]:
        return [(line_start(text, part.start), rest.end())]
    begin, after = part.start, len(text) - len(text[end:].lstrip(" \t"))
    if is_last or text[after] in "\r\n":
        begin, after = len(text[:begin].rstrip(" \t")), end
    if part.comma < 0:
        return [(begin, part.node.end)]
    if not text[part.node.end : part.comma].strip():
        return [(begin, after)]
    return [(begin, part.node.end), (part.comma, after)]
