"""Renames keys of agents and patches in place."""

from collections.abc import Mapping

from gascity.model.document_text import line_end
from gascity.model.problems import KeyPath
from gascity.toml import positions, read
from gascity.toml.edit import literal, set_fields
from gascity_migrate.keys import TranslatedAgent
from gascity_migrate.toml_text import add_lines, comments, cut_tables, rename_key, replace

FRAGMENTS = "append_fragments"


def fragments_text(text: str, table: KeyPath, fragments: list[str]) -> str:
    """Write the fragments of an agent or patch as one `append_fragments` list."""
    names = ("inject_fragments", FRAGMENTS)
    marks = [mark for name in names if (mark := positions.value_mark(text, (*table, name)))]
    marks.sort(key=lambda mark: mark.start)
    for extra in reversed(marks[1:]):
        text = replace(text, extra, ())
    if not marks:
        return set_fields(text, {FRAGMENTS: fragments}) if fragments and not table else text
    if _value(text, marks[0]) == fragments:
        return rename_key(text, marks[0], FRAGMENTS)
    return replace(text, marks[0], [f"{FRAGMENTS} = {literal(fragments)}"])


def _value(text: str, mark: positions.Mark) -> object:
    return read.parse(f"value = {text[mark.value : mark.end]}".encode())["value"]


def pool_text(
    text: str, table: KeyPath, translated: TranslatedAgent, excluded: tuple[str, ...] = ()
) -> str:
    """Move the keys of `pool` to its table, at the same position, without those in `excluded`."""
    inside = {
        name: positions.value_mark(text, (*table, *spelled.split(".")))
        for name, spelled in translated.written.items()
        if spelled.startswith("pool.") and name not in excluded
    }
    values = {name: text[mark.value : mark.end] for name, mark in inside.items() if mark}
    lines = [f"{name} = {value}" for name, value in values.items()]
    pool = positions.value_mark(text, (*table, "pool"))
    if pool is not None:
        return replace(text, pool, lines)
    rest, block = cut_tables(text, (*table, "pool"))
    if block:
        keys = {translated.written[name].removeprefix("pool."): name for name in values}
        return add_lines(rest, table, _unfolded(block, keys))
    for name, mark in reversed(inside.items()):
        text = rename_key(text, mark, name) if mark else text
    return text


def _unfolded(block: str, keys: Mapping[str, str]) -> list[str]:
    """Return the lines of a table without its header, with keys renamed and comments kept."""
    lines: list[str] = []
    after = 0
    for mark in (mark for _, inside in positions.sections(block) for mark in inside):
        lines += comments(block, after, mark.start)
        after = line_end(block, mark.end) if mark.path[-1] in keys else mark.end
        if mark.path[-1] in keys:
            value = block[mark.value : after].rstrip()
            lines.append(f"{keys[str(mark.path[-1])]} = {value}")
    return [*lines, *comments(block, after, len(block))]
