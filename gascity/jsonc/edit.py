"""Change single values of JSON text that may have comments, and leave every other byte alone.

Comments, trailing commas and a byte order mark are taken as they come; a text of nothing but
blanks and comments counts as `{}`. A path names keys of objects and, as numbers, items of lists.
Of a key that is written twice the last one counts.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gascity.model.records import NamedTuple
from gascity.render.jsontree import JsoncFault as JsoncFault
from gascity.render.jsontree import Node, Part, Path, find, known_tree, last_part, leaves_of, tree

_BOM = "\ufeff"
_ABSENT = object()

_COMMENT = re.compile(r"//[^\n]*?(?=\r?\n|\Z)|/\*.*?\*/", re.DOTALL)
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\n]*)?\r?\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Style(NamedTuple):
    """How a text is laid out; `unit` is empty where all stands on one line."""

    newline: str
    unit: str
    colon: str

    @property
    def comma(self) -> str:
        return ", " if self.colon.endswith(" ") else ","


def parse(text: str) -> Any:
    """The value of a text. Raises JsoncFault for any that is not JSON."""
    root = tree(text)
    return {} if root is None else root.value


def leaves(text: str) -> Iterator[tuple[Path, int, int]]:
    """Every value without parts: its path and where it begins and ends, also if covered."""
    root = known_tree(text)
    return iter(()) if root is None else leaves_of(root, ())


def same(one: object, other: object) -> bool:
    """Equal as JSON: the order of keys says nothing, 1 is 1.0 and is not true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def put(text: str, path: Path, value: object) -> str:
    """Let `path` have this value; it and its parents are added at the end where missing."""
    root = known_tree(text)
    if root is None:
        text = _with_root(text)
        root = known_tree(text)
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


def drop(text: str, path: Path) -> str:
    """Take away what is at `path`, with its comma and a comment behind it on its line."""
    found = find(text, path)
    while found:
        text = _cut(text, *found)
        # Of a key that is written twice the other one would come to light.
        found = find(text, path) if isinstance(path[-1], str) else None
    return text


def change(text: str, path: Path, before: object, after: object) -> str:
    """Turn the value at `path`, which is `before`, into `after` with as few edits as will do."""
    if same(before, after):
        return text
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before:
            if key not in after:
                text = drop(text, (*path, key))
        for key, value in after.items():
            text = change(text, (*path, key), before.get(key, _ABSENT), value)
        return text
    if isinstance(before, list) and isinstance(after, list | tuple):
        return _change_list(text, path, before, after)
    return put(text, path, after)


def is_empty(text: str, path: Path) -> bool:
    """Is there an object or a list at `path` with nothing in it, not even a comment."""
    found = find(text, path)
    node = found[1].node if found else None
    return bool(node and not node.parts and not text[node.start : node.end].strip("{[]} \t\r\n"))


def _with_root(text: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip(_BOM).strip():
        return f"{_BOM if text.startswith(_BOM) else ''}{{}}{newline}"
    return f"{text}{'' if text.endswith(newline) else newline}{{}}{newline}"


def _style(text: str, root: Node) -> _Style:
    parts = list(_all_parts(root))
    newline = "\r\n" if "\r\n" in text else "\n"
    colon = next((between for part in parts if (between := _colon(text, part))), ": ")
    units = (unit for holder, part in parts if (unit := _unit(text, holder, part)))
    one_line = root.parts and "\n" not in text[root.start : root.end]
    return _Style(newline, "" if one_line else next(units, "  "), colon)


def _all_parts(node: Node) -> Iterator[tuple[Node, Part]]:
    for part in node.parts:
        yield node, part
        yield from _all_parts(part.node)


def _colon(text: str, pair: tuple[Node, Part]) -> str:
    """What stands between a key and its value, if that is fit for others."""
    _, part = pair
    between = text[part.key_end : part.node.start]
    return between if between.strip(" ") == ":" else ""


def _unit(text: str, holder: Node, part: Part) -> str:
    outer, inner = _indent(text, holder.start), _indent(text, part.start)
    fits = _begins_line(text, part.start) and inner.startswith(outer)
    return inner[len(outer) :] if fits else ""


def _line_start(text: str, at: int) -> int:
    start = text.rfind("\n", 0, at) + 1
    return 1 if start == 0 and text.startswith(_BOM) else start


def _indent(text: str, at: int) -> str:
    """The blanks that the line of this offset begins with."""
    line = text[_line_start(text, at) : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, at: int) -> bool:
    return not text[_line_start(text, at) : at].strip(" \t")


def _dump(value: object, style: _Style, indent: str) -> str:
    separators = ("," if style.unit else style.comma, style.colon)
    written = json.dumps(
        _plain(value),
        indent=style.unit or None,
        ensure_ascii=False,
        allow_nan=False,
        separators=separators,
    )
    written = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
    return written.replace("\n", style.newline + indent)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _change_list(text: str, path: Path, before: Sequence[Any], after: Sequence[Any]) -> str:
    """Take out and add single items where that will do: the others keep their comments."""
    gone = [i for i, item in enumerate(before) if not any(same(item, one) for one in after)]
    kept = [item for i, item in enumerate(before) if i not in gone]
    if kept and same(kept, after[: len(kept)]):
        for index in reversed(gone):
            text = drop(text, (*path, index))
        for index in range(len(kept), len(after)):
            text = put(text, (*path, index), after[index])
        return text
    if len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            text = change(text, (*path, index), old, new)
        return text
    return put(text, path, after)


def _insert(text: str, node: Node, name: str | int, value: object, style: _Style) -> str:
    """Add a part behind all that is there, laid out like the part before it."""
    last = node.parts[-1] if node.parts else None
    begin = max(last.node.end, last.comma + 1) if last else node.start + 1
    gap = text[begin : node.end - 1]
    kept = gap[: max((found.end() for found in _COMMENT.finditer(gap)), default=0)]
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


def _cut(text: str, parent: Node, part: Part) -> str:
    """Cut a part; the comma before it goes too where none is behind it."""
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


def _spans(text: str, part: Part, *, is_last: bool) -> list[tuple[int, int]]:
    """What to cut of a text for a part: its lines, or just what it consists of."""
    end = part.comma + 1 if part.comma >= 0 else part.node.end
    rest = _REST_OF_LINE.match(text, end)
    if rest and _begins_line(text, part.start) and "\n" not in text[part.node.end : end]:
        return [(_line_start(text, part.start), rest.end())]
    begin, after = part.start, len(text) - len(text[end:].lstrip(" \t"))
    if is_last or text[after] in "\r\n":
        begin, after = len(text[:begin].rstrip(" \t")), end
    if part.comma < 0:
        return [(begin, part.node.end)]
    if not text[part.node.end : part.comma].strip():
        return [(begin, after)]
    return [(begin, part.node.end), (part.comma, after)]
