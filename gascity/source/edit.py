"""Change a person's TOML and leave every byte of it that was not named as it was.

All functions take valid TOML text, and raise TomlFault for any other. Changes map dotted keys to
plain values; None takes a key away, and a table is replaced by the one given.
"""

from collections.abc import Mapping
from typing import Any

from gascity.render.lines import (
    BOM,
    comments_end,
    line_end,
    line_start,
    newline,
    put_block,
    without_block,
)
from gascity.source import toml
from gascity.source.toml import KeyPath, Mark

_ABSENT = object()

_SETTINGS = ("depends_on.*", "agents_filter.allow.*", "agents_filter.deny.*")
_LAYERS = ("", "agent_defaults.", "patches.agent.*.", "rigs.*.patches.*.", "rigs.*.overrides.*.")
_NAMES_AN_AGENT = (
    "patches.agent.*.name",
    "rigs.*.patches.*.agent",
    "rigs.*.overrides.*.agent",
    "rigs.*.default_sling_target",
    "named_session.*.template",
    *(layer + setting for layer in _LAYERS for setting in _SETTINGS),
)


def set_fields(text: str, changes: Mapping[str, object | None]) -> str:
    """Change settings of an agent.toml; new tables go to the end of the file."""
    return _apply(text, (), changes)


def set_patch(
    text: str, target: str, changes: Mapping[str, object | None], *, rig: str | None = None
) -> str:
    """Change what city.toml says of one agent, everywhere or in one rig.

    The entry is made when it is missing and taken away when nothing but its target is left.
    Raises LookupError for a rig that is not declared.
    """
    within, array, key = _patches_of(text, rig)
    index = _last_entry(text, array, key, target, "" if rig else "dir")
    if index is None:
        if all(value is None for value in changes.values()):
            return text
        text, index = _add_entry(text, array, key, target, within)
    entry = (*array, index)
    text = _apply(text, entry, changes)
    return _remove(text, entry) if set(_at(_document(text), entry)) == {key} else text


def declare_rig(text: str, name: str, fields: Mapping[str, object]) -> str:
    """Add a rig, or change the given fields of the one that is there."""
    index = _last_entry(text, ("rigs",), "name", name)
    if index is None:
        text, index = _add_entry(text, ("rigs",), "name", name, ("rigs",))
    return _apply(text, ("rigs", index), fields)


def remove_rig(text: str, name: str) -> str:
    """Take out a rig and all tables inside it. Comments above its header stay."""
    index = _last_entry(text, ("rigs",), "name", name)
    return text if index is None else _remove(text, ("rigs", index))


def rig_entry(text: str, name: str) -> dict[str, Any] | None:
    index = _last_entry(text, ("rigs",), "name", name)
    return None if index is None else dict(_at(_document(text), ("rigs", index)))


def declare_import(
    text: str, binding: str, values: Mapping[str, object], *, rig: str | None = None
) -> str:
    """Import a pack, for the city or for one rig, below the imports that are there.

    Raises LookupError for a rig that is not declared.
    """
    if rig is None:
        return _apply(text, ("imports",), {binding: values})
    return _apply(text, _rig_at(text, rig), {f"imports.{binding}": values})


def remove_import(text: str, binding: str, *, rig: str | None = None) -> str:
    """Take out an import, and its name where a rig lists it. Comments above its header stay."""
    base = _rig_at(text, rig) if rig is not None else ()
    listed = _at(_document(text), (*base, "imports"))
    if isinstance(listed, list):
        rest = [item for item in listed if item != binding]
        return _apply(text, base, {"imports": rest or None})
    return _apply(text, base, {f"imports.{binding}": None})


def rename_references(text: str, old: str, new: str) -> tuple[str, list[KeyPath]]:
    """Let everything that names the agent `old`, alone or as `rig/old`, name `new` instead.

    Returns the key paths that changed, in the order written.
    """
    document = _document(text)
    shapes = {tuple(shape.split(".")) for shape in _NAMES_AN_AGENT}
    renamed: list[KeyPath] = []
    for mark in reversed(toml.marks(text)):
        shape = tuple("*" if isinstance(part, int) else part for part in mark.path)
        value = _at(document, mark.path)
        if shape in shapes and isinstance(value, str) and value.rpartition("/")[2] == old:
            text = _with_value(text, mark, value.removesuffix(old) + new)
            renamed.insert(0, mark.path)
    return text, renamed


def _patches_of(text: str, rig: str | None) -> tuple[KeyPath, KeyPath, str]:
    """What a new entry is put at the end of, the array it joins, and the key of its target."""
    if rig is None:
        return (), ("patches", "agent"), "name"
    within = _rig_at(text, rig)
    return within, (*within, "patches"), "agent"


def _rig_at(text: str, name: str) -> KeyPath:
    index = _last_entry(text, ("rigs",), "name", name)
    if index is None:
        raise LookupError(name)
    return ("rigs", index)


def _last_entry(text: str, array: KeyPath, key: str, name: str, lacking: str = "") -> int | None:
    entries = _at(_document(text), array)
    found = None
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and entry.get(key) == name and lacking not in entry:
            found = index
    return found


def _document(text: str) -> dict[str, Any]:
    return toml.parse(text.encode())


def _at(value: Any, path: KeyPath) -> Any:
    """What is at `path`, or _ABSENT."""
    for part in path:
        inside = isinstance(value, dict) if isinstance(part, str) else isinstance(value, list)
        if not inside or (part not in value if isinstance(part, str) else part >= len(value)):
            return _ABSENT
        value = value[part]
    return value


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = [f"{_key(name)} = {_literal(inner)}" for name, inner in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    import tomlkit

    return tomlkit.item(value).as_string()


def _key(*path: str | int) -> str:
    import tomlkit

    return ".".join(tomlkit.key(part).as_string() for part in path if isinstance(part, str))


def _with_value(text: str, mark: Mark, value: object) -> str:
    literal = _literal(value)
    single = text.startswith("'", mark.value) and not text.startswith("'''", mark.value)
    if single and literal[1:-1] == value and "'" not in literal:
        literal = f"'{value}'"
    return text[: mark.value] + literal + text[mark.end :]


def _apply(text: str, base: KeyPath, changes: Mapping[str, object | None]) -> str:
    _document(text)
    for key, value in changes.items():
        text = _change(text, base, (*base, *key.split(".")), value)
    return text


def _change(text: str, base: KeyPath, path: KeyPath, value: object | None) -> str:
    if value is None:
        return _unset(text, base, path)
    if isinstance(value, Mapping):
        return _set_table(text, base, path, value)
    return _set(text, base, path, value)


def _unset(text: str, base: KeyPath, path: KeyPath) -> str:
    """Take away a key, and the tables below `base` that this leaves with nothing to say."""
    if _at(_document(text), path) is _ABSENT:
        return text
    text = _remove(text, path)
    for length in range(len(path) - 1, len(base), -1):
        left = _at(_document(text), path[:length])
        if left is not _ABSENT and (left or _has_comments(text, path[:length])):
            break
        text = _remove(text, path[:length])
    return text


def _set_table(text: str, base: KeyPath, path: KeyPath, table: Mapping[str, object]) -> str:
    old = _at(_document(text), path)
    for name in old if isinstance(old, dict) else ():
        if name not in table:
            text = _unset(text, path, (*path, name))
    for name, value in table.items():
        text = _change(text, base, (*path, name), value)
    return text if table or _at(_document(text), path) == {} else _set(text, base, path, {})


def _set(text: str, base: KeyPath, path: KeyPath, value: object) -> str:
    old = _at(_document(text), path)
    if old is not _ABSENT and _literal(old) == _literal(value):
        return text
    mark = toml.written(toml.marks(text), path)
    if mark and isinstance(old, list) and isinstance(value, list):
        return _set_list(text, mark, [_literal(item) for item in old], value)
    if mark:
        return _with_value(text, mark, value)
    tables = [path[:length] for length in range(len(base) + 1, len(path))]
    in_the_way = (one for one in tables if not isinstance(_at(_document(text), one), dict))
    return _insert(_remove(text, next(in_the_way, path)), base, path, _literal(value))


def _set_list(text: str, mark: Mark, old: list[str], value: list[object]) -> str:
    """Take out and add single items where that will do: the others keep their comments."""
    new = [_literal(item) for item in value]
    kept = [item for item in old if item in new]
    if (old and not kept) or kept != new[: len(kept)] or len(set(old)) < len(old):
        return _with_value(text, mark, value)
    for index in range(len(old) - 1, -1, -1):
        if old[index] not in new:
            text = _remove(text, (*mark.path, index))
    for item in new[len(kept) :]:
        text = _add_item(text, mark.path, item)
    return text


def _block_end(text: str, section: toml.Section) -> int:
    """The end of a table with the comments right under it, unless the next header has them."""
    header, keys = section
    return comments_end(text, line_end(text, keys[-1].end if keys else header.end))


def _region_end(text: str, base: KeyPath) -> int:
    """The end of all tables at or under `base`; of the file where there are none."""
    inside = [one for one in toml.sections(text) if base and one[0].path[: len(base)] == base]
    return _block_end(text, inside[-1]) if inside else len(text)


def _has_comments(text: str, path: KeyPath) -> bool:
    return any(
        text[line_end(text, one[0].end) : _block_end(text, one)].strip()
        for one in toml.sections(text)
        if one[0].path == path
    )


def _remove(text: str, path: KeyPath) -> str:
    """Take out all that is at or under `path`."""
    for mark in reversed(_pieces(text, path)):
        header = mark.kind in ("table", "entry")
        text = _cut_block(text, mark) if header else _cut_item(text, mark)
    return text


def _pieces(text: str, path: KeyPath) -> list[Mark]:
    """What is at or under `path`; a header stands for all that is under it."""
    pieces: list[Mark] = []
    taken = False
    for mark in toml.marks(text):
        matches = mark.path[: len(path)] == path
        header = mark.kind in ("table", "entry")
        if matches and (header or not taken):
            pieces.append(mark)
        if header:
            taken = matches
    return toml.outermost(pieces)


def _cut_block(text: str, header: Mark) -> str:
    """Cut a table with the blank lines that set it apart on one side."""
    section = next(one for one in toml.sections(text) if one[0] == header)
    return without_block(text, line_start(text, header.start), _block_end(text, section))


def _cut_item(text: str, mark: Mark) -> str:
    """Cut a key or an item, the whole line if it stands alone there."""
    comma = toml.skip_blank(text, mark.end)
    end = comma + 1 if text.startswith(",", comma) else mark.end
    if _alone(text, mark.start, end):
        return text[: line_start(text, mark.start)] + text[line_end(text, end) :]
    before = text[: mark.start].rstrip(" \t")
    if end == mark.end and before.endswith(","):
        return before[:-1] + text[end:]
    return text[: mark.start] + text[end:].lstrip(" \t")


def _alone(text: str, start: int, end: int) -> bool:
    """Is there nothing else but a comment on these lines."""
    rest = text[end : line_end(text, end)].strip()
    return not text[line_start(text, start) : start].strip() and rest[:1] in ("", "#")


def _insert(text: str, base: KeyPath, path: KeyPath, literal: str) -> str:
    """Write a key that is not there: with the rest of its table, else in a new one in `base`."""
    *table, name = path
    line = f"{_key(name)} = {literal}"
    for header, keys in toml.sections(text):
        if header.path == tuple(table):
            return _add_key(text, header, keys, line)
    block = f"[{_key(*table)}]{newline(text)}{line}"
    beside = _insert_beside(text, path, literal)
    return beside or put_block(text, _region_end(text, base), block)


def _insert_beside(text: str, path: KeyPath, literal: str) -> str | None:
    """Write a key into a table that has no header: an inline one, or one of dotted keys."""
    for length in range(len(path) - 1, 0, -1):
        table = path[:length]
        if toml.written(toml.marks(text), table):
            return _add_item(text, table, f"{_key(*path[length:])} = {literal}")
        for header, keys in toml.sections(text):
            dotted = [key for key in keys if key.path[:length] == table]
            if dotted and len(header.path) < length:
                line = f"{_key(*path[len(header.path) :])} = {literal}"
                return _add_key(text, header, dotted, line)
    return None


def _add_key(text: str, header: Mark, keys: list[Mark], line: str) -> str:
    """Write a line after the last of the keys, indented like it."""
    if not keys and not header.path:
        return _add_first_key(text, line)
    last = keys[-1] if keys else header
    indent = text[line_start(text, last.start) : last.start]
    return _put_line(text, line_end(text, last.end), indent + line)


def _add_first_key(text: str, line: str) -> str:
    """Write a line before all tables. A comment that opens the file stays above it."""
    headers = [header for header, _ in toml.sections(text)[1:]]
    if not headers:
        return _put_line(text, len(text), line)
    at = begin = line_start(text, headers[0].start)
    while text[line_start(text, begin - 1) : begin].lstrip().startswith("#"):
        begin = line_start(text, begin - 1)
    return put_block(text, begin if text[:begin].strip(BOM) else at, line)


def _add_item(text: str, path: KeyPath, item: str) -> str:
    """Add to the array or inline table at `path`, laid out as its last item is."""
    everything = toml.marks(text)
    whole = toml.written(everything, path)
    assert whole, path
    inside = toml.outermost(mark for mark in everything if whole.value < mark.start < whole.end)
    if not inside:
        pad = " " if text[whole.value] == "{" else ""
        rest = text[whole.value + 1 : whole.end - 1].rstrip(" \t")
        return text[: whole.value + 1] + pad + item + pad + rest + text[whole.end - 1 :]
    last = inside[-1]
    comma = toml.skip_blank(text, last.end)
    after, tail = (comma + 1, ",") if text[comma] == "," else (last.end, "")
    at, new = after, f" {item}{tail}"
    if _alone(text, last.start, after):
        indent = text[line_start(text, last.start) : last.start]
        at, new = line_end(text, after), f"{indent}{item}{tail}{newline(text)}"
    return text[: last.end] + ("" if tail else ",") + text[last.end : at] + new + text[at:]


def _add_entry(text: str, array: KeyPath, key: str, name: str, within: KeyPath) -> tuple[str, int]:
    """Add to an array of tables, and tell the new entry's index."""
    held = _at(_document(text), array)
    index = len(held) if isinstance(held, list) else 0
    if toml.written(toml.marks(text), array):
        return _add_item(text, array, _literal({key: name})), index
    block = f"[[{_key(*array)}]]{newline(text)}{key} = {_literal(name)}"
    beside = _insert_beside(text, array, _literal([{key: name}]))
    return beside or put_block(text, _region_end(text, within), block), index


def _put_line(text: str, at: int, line: str) -> str:
    end = newline(text)
    begun = text[:at].strip(BOM) and text[at - 1] != "\n"
    return f"{text[:at]}{end if begun else ''}{line}{end}{text[at:]}"
