"""Edits TOML text and keeps every byte that was not asked to change.

tomlkit can round-trip a whole document, but it moved comments in providers' files, so edits here
replace the text between two offsets that `positions.py` found. tomlkit writes the values that need
quoting; plain ones are written without importing it, which costs as much as a whole command.

All functions take valid TOML and raise TomlError for anything else. Two groups of callers:
`city` commands change the user's own files (`set_fields` to `rename_references`), and MCP servers
are put into providers' files (`put_value` to `drop_empty`). `rewrite.py` converts v1 files.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gascity.model.document_text import (
    BOM,
    comments_end,
    comments_start,
    insert_block,
    line_end,
    line_start,
    newline,
    remove_block,
    same,
)
from gascity.model.problems import KeyPath
from gascity.model.values import as_list, as_text
from gascity.toml.positions import (
    Mark,
    Section,
    marks,
    outermost,
    sections,
    skip_blank,
    value_mark,
)
from gascity.toml.read import parse_text

_BARE_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_SETTINGS = ("depends_on.*", "agents_filter.allow.*", "agents_filter.deny.*")
_LAYERS = ("", "agent_defaults.", "patches.agent.*.", "rigs.*.patches.*.", "rigs.*.overrides.*.")
_AGENT_REFERENCES = (
    "patches.agent.*.name",
    "rigs.*.patches.*.agent",
    "rigs.*.overrides.*.agent",
    "rigs.*.default_sling_target",
    "named_session.*.template",
    *(layer + setting for layer in _LAYERS for setting in _SETTINGS),
)


# The user's own files. `changes` maps dotted keys to plain values; None removes a key, and a table
# is replaced by the given one.


def set_fields(text: str, changes: Mapping[str, object | None]) -> str:
    """Change settings of an agent.toml; new tables go to the end of the file."""
    return _apply(text, (), changes)


def set_patch(
    text: str, target: str, changes: Mapping[str, object | None], *, rig: str | None = None
) -> str:
    """Change the patch of one agent in city.toml, for the city or for one rig.

    The entry is created if it is missing and removed when only its target is left. Raises
    LookupError for a rig that is not declared.
    """
    within: KeyPath = () if rig is None else _rig_path(text, rig)
    array: KeyPath = ("patches", "agent") if rig is None else (*within, "patches")
    key, excluded = ("name", "dir") if rig is None else ("agent", "")
    index = _last_entry(text, array, key, target, excluded)
    if index is None:
        if all(value is None for value in changes.values()):
            return text
        text, index = _add_entry(text, array, key, target, within)
    entry = (*array, index)
    text = _apply(text, entry, changes)
    return _remove(text, entry) if set(_table_at(text, entry) or {}) == {key} else text


def declare_rig(text: str, name: str, fields: Mapping[str, object]) -> str:
    """Add a rig, or change the given fields of an existing one."""
    if not rig_entry(text, name):
        text, _ = _add_entry(text, ("rigs",), "name", name, ("rigs",))
    return _apply(text, _rig_path(text, name), fields)


def remove_rig(text: str, name: str) -> str:
    """Remove a rig and all tables inside it. Comments above its header stay."""
    return _remove(text, _rig_path(text, name)) if rig_entry(text, name) else text


def rig_entry(text: str, name: str) -> Mapping[str, object] | None:
    """Return the fields of a rig, or None if it is not declared."""
    index = _last_entry(text, ("rigs",), "name", name)
    return None if index is None else dict(_table_at(text, ("rigs", index)) or {})


def declare_import(
    text: str, binding: str, values: Mapping[str, object], *, rig: str | None = None
) -> str:
    """Import a pack, for the city or for one rig, below the existing imports.

    Raises LookupError for a rig that is not declared.
    """
    if rig is None:
        return _apply(text, ("imports",), {binding: values})
    return _apply(text, _rig_path(text, rig), {f"imports.{binding}": values})


def remove_import(text: str, binding: str, *, rig: str | None = None) -> str:
    """Remove an import, also where a rig lists its name. Comments above its header stay."""
    base = () if rig is None else _rig_path(text, rig)
    match value_at(_document(text), (*base, "imports")):
        case list() as names:
            rest = [name for name in names if name != binding]
            return _apply(text, base, {"imports": rest or None})
    return _apply(text, base, {f"imports.{binding}": None})


def rename_references(text: str, old: str, new: str) -> tuple[str, list[KeyPath]]:
    """Replace `old` and `rig/old` by `new` wherever an agent is named.

    Returns the changed key paths too, in the order written.
    """
    document = _document(text)
    shapes = {tuple(shape.split(".")) for shape in _AGENT_REFERENCES}
    renamed: list[KeyPath] = []
    for mark in reversed(marks(text)):
        shape = tuple("*" if isinstance(part, int) else part for part in mark.path)
        value = as_text(value_at(document, mark.path))
        if shape in shapes and value.rpartition("/")[2] == old:
            text = replace_value(text, mark, value.removesuffix(old) + new)
            renamed.insert(0, mark.path)
    return text, renamed


# Providers' files, where city owns single tables and the user everything around them.


def put_value(text: str, path: KeyPath, value: object) -> str:
    """Set the value at `path`. Of an existing table only what differs is rewritten."""
    old = value_at(_document(text), path)
    if same(old, value):
        return text
    match old, value:
        case dict(), Mapping():
            for key, inner in value.items():
                text = put_value(text, (*path, key), inner)
            for key in old.keys() - value.keys():
                text = drop(text, (*path, key))
            return text
    return _set(text, path[:-1], path, value)


def add_table(text: str, path: KeyPath, table: Mapping[str, object]) -> str:
    """Add a table after its siblings, with its own tables inline."""
    is_item = isinstance(path[-1], int)
    for length in range(len(path) - 1, 0, -1):
        if value_mark(text, path[:length]):
            pair = literal(table) if is_item else f"{key_text(*path[length:])} = {literal(table)}"
            return _add_item(text, path[:length], pair)
    header = key_text(*path)
    lines = [f"[[{header}]]" if is_item else f"[{header}]"]
    lines += [f"{key_text(key)} = {literal(value)}" for key, value in table.items()]
    return insert_block(text, _region_end(text, path[:-1]), newline(text).join(lines))


def drop(text: str, path: KeyPath) -> str:
    """Remove everything at or under `path`. Comments below it stay: they are the user's."""
    return _remove(text, path, comments_below=False)


def drop_empty(text: str, path: KeyPath) -> str:
    """Remove an empty table or list, unless it has a comment on its line or the next one."""
    if value_at(_document(text), path) not in ({}, []):
        return text
    for mark in _pieces(text, path):
        if "#" in text[mark.end : line_end(text, line_end(text, mark.end))]:
            return text
    return drop(text, path)


# Values and keys.


def value_at(value: object, path: KeyPath) -> object:
    """Return the value at `path`, or None if there is none: TOML has no null."""
    for part in path:
        match value, part:
            case dict(), str():
                value = value.get(part)
            case list(), int() if part < len(value):
                value = value[part]
            case _:
                return None
    return value


def _list_at(text: str, path: KeyPath) -> Sequence[object]:
    """Return the list at `path`, or an empty one if there is none."""
    return as_list(value_at(_document(text), path))


def _table_at(text: str, path: KeyPath) -> Mapping[str, object] | None:
    """Return the table at `path`, or None if there is none."""
    value = value_at(_document(text), path)
    return value if isinstance(value, dict) else None


def literal(value: object) -> str:
    """Write a value as TOML on one line."""
    match value:
        case Mapping():
            pairs = [f"{key_text(name)} = {literal(inner)}" for name, inner in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case bool():
            return "true" if value else "false"
        case str() if value.isprintable() and '"' not in value and "\\" not in value:
            return f'"{value}"'
    import tomlkit

    return tomlkit.item(value).as_string()


def key_text(*path: str | int) -> str:
    """Write a dotted key, without the numbers of array entries."""
    return ".".join(_key_part(part) for part in path if isinstance(part, str))


def _key_part(name: str) -> str:
    if name and _BARE_KEY.issuperset(name):
        return name
    import tomlkit

    return tomlkit.key(name).as_string()


def replace_value(text: str, mark: Mark, value: object) -> str:
    """Replace the value of a mark; a string stays in single quotes where that is possible."""
    single = text.startswith("'", mark.value) and not text.startswith("'''", mark.value)
    match value:
        case str() if single and value.isprintable() and "'" not in value:
            return f"{text[: mark.value]}'{value}'{text[mark.end :]}"
    return text[: mark.value] + literal(value) + text[mark.end :]


@lru_cache(maxsize=4)  # one edit asks about the same text again and again; callers only read
def _document(text: str) -> Mapping[str, object]:
    return parse_text(text.removeprefix(BOM))


def _rig_path(text: str, name: str) -> KeyPath:
    index = _last_entry(text, ("rigs",), "name", name)
    if index is None:
        raise LookupError(name)
    return ("rigs", index)


def _last_entry(text: str, array: KeyPath, key: str, name: str, excluded: str = "") -> int | None:
    """Return the index of the last entry with this name that does not have the excluded key."""
    last = None
    for index in range(len(_list_at(text, array))):
        entry = _table_at(text, (*array, index)) or {}
        if entry.get(key) == name and excluded not in entry:
            last = index
    return last


# Changing values.


def _apply(text: str, base: KeyPath, changes: Mapping[str, object | None]) -> str:
    _document(text)
    for key, value in changes.items():
        text = _change(text, base, (*base, *key.split(".")), value)
    return text


def _change(text: str, base: KeyPath, path: KeyPath, value: object | None) -> str:
    match value:
        case None:
            return _unset(text, base, path)
        case Mapping():
            return _set_table(text, base, path, value)
    return _set(text, base, path, value)


def _unset(text: str, base: KeyPath, path: KeyPath) -> str:
    """Remove a key, and the tables below `base` that become empty and have no comments."""
    if value_at(_document(text), path) is None:
        return text
    text = _remove(text, path)
    for length in range(len(path) - 1, len(base), -1):
        rest = value_at(_document(text), path[:length])
        if rest is not None and (rest or _has_comments(text, path[:length])):
            break
        text = _remove(text, path[:length])
    return text


def _set_table(text: str, base: KeyPath, path: KeyPath, table: Mapping[str, object]) -> str:
    for name in _table_at(text, path) or ():
        if name not in table:
            text = _unset(text, path, (*path, name))
    for name, value in table.items():
        text = _change(text, base, (*path, name), value)
    return text if table or value_at(_document(text), path) == {} else _set(text, base, path, {})


def _set(text: str, base: KeyPath, path: KeyPath, value: object) -> str:
    old = value_at(_document(text), path)
    if old is not None and literal(old) == literal(value):
        return text
    mark = value_mark(text, path)
    match mark, old, value:
        case Mark(), list(), list() | tuple():
            return _set_list(text, mark, [literal(item) for item in old], value)
        case Mark(), _, _:
            return replace_value(text, mark, value)
    tables = (path[:length] for length in range(len(base) + 1, len(path)))
    obstacles = (table for table in tables if _table_at(text, table) is None)
    return _insert(_remove(text, next(obstacles, path)), base, path, literal(value))


def _set_list(
    text: str, mark: Mark, old: list[str], value: list[object] | tuple[object, ...]
) -> str:
    """Remove and add single items where that is enough, so that the others keep their comments."""
    new = [literal(item) for item in value]
    kept = [item for item in old if item in new]
    if (old and not kept) or kept != new[: len(kept)] or len(set(old)) < len(old):
        return replace_value(text, mark, value)
    for index in range(len(old) - 1, -1, -1):
        if old[index] not in new:
            text = _remove(text, (*mark.path, index))
    for item in new[len(kept) :]:
        text = _add_item(text, mark.path, item)
    return text


# Removing.


def _block_end(text: str, section: Section) -> int:
    """Return the end of a table including the comments right below it."""
    return comments_end(text, line_end(text, section.last.end))


def _region_end(text: str, base: KeyPath) -> int:
    """Return the end of all tables at or under `base`, or of the file if there are none."""
    if not base:
        return len(text)
    inside = [part for part in sections(text) if part.header.path[: len(base)] == base]
    return _block_end(text, inside[-1]) if inside else len(text)


def _has_comments(text: str, path: KeyPath) -> bool:
    return any(
        text[line_end(text, section.header.end) : _block_end(text, section)].strip()
        for section in sections(text)
        if section.header.path == path
    )


def _remove(text: str, path: KeyPath, *, comments_below: bool = True) -> str:
    """Remove everything at or under `path`."""
    for mark in reversed(_pieces(text, path)):
        if not mark.is_header:
            text = _cut_item(text, mark)
            continue
        section = next(section for section in sections(text) if section.header == mark)
        end = line_end(text, section.last.end)
        end = comments_end(text, end) if comments_below else end
        text = remove_block(text, line_start(text, mark.start), end)
    return text


def _pieces(text: str, path: KeyPath) -> list[Mark]:
    """Return what is at or under `path`; a header stands for everything below it."""
    pieces: list[Mark] = []
    taken = False
    for mark in marks(text):
        matches = mark.path[: len(path)] == path
        if matches and (mark.is_header or not taken):
            pieces.append(mark)
        if mark.is_header:
            taken = matches
    return outermost(pieces)


def _cut_item(text: str, mark: Mark) -> str:
    """Cut a key or an item, and its whole line if there is nothing else on it."""
    comma = skip_blank(text, mark.end)
    end = comma + 1 if text.startswith(",", comma) else mark.end
    if _is_alone(text, mark.start, end):
        return text[: line_start(text, mark.start)] + text[line_end(text, end) :]
    before = text[: mark.start].rstrip(" \t")
    if end == mark.end and before.endswith(","):
        return before[:-1] + text[end:]
    return text[: mark.start] + text[end:].lstrip(" \t")


def _is_alone(text: str, start: int, end: int) -> bool:
    """Is there nothing but a comment besides this on its lines?"""
    rest = text[end : line_end(text, end)].strip()
    return not text[line_start(text, start) : start].strip() and rest[:1] in ("", "#")


# Inserting.


def _insert(text: str, base: KeyPath, path: KeyPath, value: str) -> str:
    """Write a new key into its table, or into a new table at the end of `base`."""
    *table, name = path
    line = f"{key_text(name)} = {value}"
    for section in sections(text):
        if section.header.path == tuple(table):
            return add_key(text, section, line)
    block = f"[{key_text(*table)}]{newline(text)}{line}"
    headless = _insert_headless(text, path, value)
    return headless or insert_block(text, _region_end(text, base), block)


def _insert_headless(text: str, path: KeyPath, value: str) -> str | None:
    """Write a key into a table without a header: an inline one, or one of dotted keys."""
    for length in range(len(path) - 1, 0, -1):
        table = path[:length]
        if value_mark(text, table):
            return _add_item(text, table, f"{key_text(*path[length:])} = {value}")
        for header, keys in sections(text):
            dotted = [key for key in keys if key.path[:length] == table]
            if dotted and len(header.path) < length:
                line = f"{key_text(*path[len(header.path) :])} = {value}"
                return add_key(text, Section(header, dotted), line)
    return None


def add_key(text: str, section: Section, line: str) -> str:
    """Write a line after the last key of a section, indented like it."""
    if not section.keys and not section.header.path:
        return _add_first_key(text, line)
    last = section.last
    indent = text[line_start(text, last.start) : last.start]
    return _insert_line(text, line_end(text, last.end), indent + line)


def _add_first_key(text: str, line: str) -> str:
    """Write a line before all tables. A comment that opens the file stays above it."""
    headers = [section.header for section in sections(text)[1:]]
    if not headers:
        return _insert_line(text, len(text), line)
    header_start = line_start(text, headers[0].start)
    start = comments_start(text, header_start)
    return insert_block(text, start if text[:start].strip(BOM) else header_start, line)


def _add_item(text: str, path: KeyPath, item: str) -> str:
    """Add to the array or inline table at `path`, laid out like its last item."""
    whole = value_mark(text, path)
    assert whole, path
    inside = outermost(mark for mark in marks(text) if whole.value < mark.start < whole.end)
    if not inside:
        pad = " " if text[whole.value] == "{" else ""
        rest = text[whole.value + 1 : whole.end - 1].rstrip(" \t")
        return text[: whole.value + 1] + pad + item + pad + rest + text[whole.end - 1 :]
    last = inside[-1]
    comma = skip_blank(text, last.end)
    after, tail = (comma + 1, ",") if text[comma] == "," else (last.end, "")
    at, new = after, f" {item}{tail}"
    if _is_alone(text, last.start, after):
        indent = text[line_start(text, last.start) : last.start]
        at, new = line_end(text, after), f"{indent}{item}{tail}{newline(text)}"
    return text[: last.end] + ("" if tail else ",") + text[last.end : at] + new + text[at:]


def _add_entry(text: str, array: KeyPath, key: str, name: str, within: KeyPath) -> tuple[str, int]:
    """Add to an array of tables, and return the index of the new entry."""
    index = len(_list_at(text, array))
    if value_mark(text, array):
        return _add_item(text, array, literal({key: name})), index
    block = f"[[{key_text(*array)}]]{newline(text)}{key} = {literal(name)}"
    headless = _insert_headless(text, array, literal([{key: name}]))
    return headless or insert_block(text, _region_end(text, within), block), index


def _insert_line(text: str, offset: int, line: str) -> str:
    end = newline(text)
    needs_break = text[:offset].strip(BOM) and text[offset - 1] != "\n"
    return f"{text[:offset]}{end if needs_break else ''}{line}{end}{text[offset:]}"
