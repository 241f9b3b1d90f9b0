"""Keys of an agent or a patch that have another name today, changed where they stand."""

from collections.abc import Mapping

from gascity.model.problems import KeyPath
from gascity.render.lines import line_end
from gascity.source import toml
from gascity.source.edit import set_fields
from gascity_migrate.keys import Translated
from gascity_migrate.texts import add_lines, comments, cut_tables, literal, rename_key, replace

FRAGMENTS = "append_fragments"


def fragments_text(text: str, table: KeyPath, fragments: list[str]) -> str:
    """The list of fragments of an agent or a patch under its one name of today."""
    marks = toml.marks(text)
    names = ("inject_fragments", FRAGMENTS)
    found = [mark for name in names if (mark := toml.written(marks, (*table, name)))]
    found.sort(key=lambda mark: mark.start)
    for extra in reversed(found[1:]):
        text = replace(text, extra, ())
    if not found:
        return set_fields(text, {FRAGMENTS: fragments}) if fragments and not table else text
    if _value(text, found[0]) == fragments:
        return rename_key(text, found[0], FRAGMENTS)
    return replace(text, found[0], [f"{FRAGMENTS} = {literal(fragments)}"])


def _value(text: str, mark: toml.Mark) -> object:
    return toml.parse(f"value = {text[mark.value : mark.end]}".encode())["value"]


def pool_text(text: str, table: KeyPath, today: Translated, apart: tuple[str, ...] = ()) -> str:
    """The keys of a pool among those of the table, where the pool stood; `apart` are left out."""
    marks = toml.marks(text)
    inside = {
        name: toml.written(marks, (*table, *spelled.split(".")))
        for name, spelled in today.written.items()
        if spelled.startswith("pool.") and name not in apart
    }
    said = {name: text[mark.value : mark.end] for name, mark in inside.items() if mark}
    lines = [f"{name} = {value}" for name, value in said.items()]
    pool = toml.written(marks, (*table, "pool"))
    if pool is not None:
        return replace(text, pool, lines)
    rest, block = cut_tables(text, (*table, "pool"))
    if block:
        keys = {today.written[name].removeprefix("pool."): name for name in said}
        return add_lines(rest, table, _unfolded(block, keys))
    for name, mark in reversed(inside.items()):
        text = rename_key(text, mark, name) if mark else text
    return text


def _unfolded(block: str, keys: Mapping[str, str]) -> list[str]:
    """The lines of a table without its header, keys under other names; every comment is there."""
    lines: list[str] = []
    after = 0
    for mark in (mark for _, inside in toml.sections(block) for mark in inside):
        lines += comments(block, after, mark.start)
        after = line_end(block, mark.end) if mark.path[-1] in keys else mark.end
        if mark.path[-1] in keys:
            said = block[mark.value : after].rstrip()
            lines.append(f"{keys[str(mark.path[-1])]} = {said}")
    return [*lines, *comments(block, after, len(block))]
