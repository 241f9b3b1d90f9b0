"""Cutting tables and keys out of TOML keeps all other text and comments."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gascity.toml.read import parse
from gascity.toml.rewrite import (
    add_lines,
    comments,
    remove_key,
    rename_key,
    rename_tables,
    take_tables,
)
from gascity_migrate.manifests import fragments_text, pool_text
from gascity_migrate.v1_tables import translate

NAMES = st.sampled_from(["nudge", "model", "args", "env", "pool", "x y", "name"])
VALUES = st.sampled_from(
    [
        "1",
        "'a # b'",
        '"[[agent]]"',
        '"""\n# in a text\n[[agent]]\n"""',
        "[1, 2]",
        '[\n  "a",  # {0}\n  "b",\n]',
        "{ a = 1, b = 'x' }",
    ]
)
COMMENTS = st.sampled_from(["", "", "# {0}", "  # {0} [[agent]]"])


@st.composite
def tables(draw: st.DrawFn, header: str) -> str:
    """A table with comments above, behind and inside it."""
    lines = []
    if above := draw(COMMENTS):
        lines.append(above)
    lines.append(header + draw(COMMENTS))
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        key = f'"{name}"' if " " in name else name
        lines.append(f"{key} = {draw(VALUES)}{draw(COMMENTS)}")
    lines += draw(st.lists(COMMENTS, max_size=2))
    return "\n".join(lines) + "\n" * draw(st.integers(1, 3))


HEADERS = st.sampled_from(["[[agent]]", "[[agent]]", "[[rigs]]", "[[named_session]]"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A city's file in which every comment is a different one."""
    parts = [draw(st.sampled_from(["", "# {0}\n\n", "include = []  # {0}\n"]))]
    for header in draw(st.lists(HEADERS, max_size=5)):
        parts.append(draw(tables(header)))
        if header == "[[agent]]" and draw(st.booleans()):
            parts.append(draw(tables("[agent.limits]")))
    text = "".join(parts)
    number = 0
    while "{0}" in text:
        text = text.replace("{0}", f"note {number}.", 1)
        number += 1
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return ("\ufeff" if draw(st.booleans()) else "") + text


def notes(*texts: str) -> Counter[str]:
    return Counter(note for text in texts for note in re.findall(r"# note \d+\.", text))


@given(documents())
def test_taken_tables_and_the_rest_contain_everything(text: str) -> None:
    whole = parse(text.encode())
    rest, taken = take_tables(text, "agent")
    assert [parse(table.encode()) for table in taken] == whole.pop("agent", [])
    assert parse(rest.encode()) == whole
    assert notes(rest, *taken) == notes(text)


@given(documents())
def test_remaining_lines_are_unchanged(text: str) -> None:
    rest, _ = take_tables(text, "agent")
    assert rest.startswith("\ufeff") == text.startswith("\ufeff")
    lines = iter(text.lstrip("\ufeff").splitlines(keepends=True))
    left = rest.lstrip("\ufeff").splitlines(keepends=True)
    assert all(any(line == original for original in lines) for line in left)


@given(documents())
def test_comments_of_a_removed_key_stay(text: str) -> None:
    _, taken = take_tables(text, "agent")
    for table in taken:
        for name in parse(table.encode()):
            left = remove_key(table, (name,))
            whole = parse(table.encode())
            del whole[name]
            assert parse(left.encode()) == whole
            if name != "limits":  # what stands inside a table goes with it
                assert notes(left) == notes(table)


def test_inline_tables_become_one_line_per_key() -> None:
    text = 'agent = [{ name = "a", env = { X = "1" } }, {name="b", "x y".z = 2}]  # all\n[rest]\n'
    rest, taken = take_tables(text, "agent")
    assert rest == "[rest]\n"
    assert taken == ['name = "a"\nenv = { X = "1" }\n', 'name="b"\n"x y".z = 2\n# all\n']


def test_separated_subtables_are_found() -> None:
    text = "[[agent]]\nname = 'a'\n[other]\nx = 1\n[ agent . 'env' ] # here\nY = '1'\n"
    rest, taken = take_tables(text, "agent")
    assert rest == "[other]\nx = 1\n"
    assert taken == ["name = 'a'\n\n['env' ] # here\nY = '1'\n"]


def test_lines_of_a_string_are_not_comments() -> None:
    text = '[[a]]\nx = """\n# not one"""\n[[agent]]\nname = "b"\n'
    rest, taken = take_tables(text, "agent")
    assert (rest, taken) == ('[[a]]\nx = """\n# not one"""\n', ['name = "b"\n'])


def test_hash_signs_in_strings_are_not_comments() -> None:
    text = 'a = [ # one\n "#no", { b = "#no" }, # two\n] # three\n'
    assert list(comments(text, 0, len(text))) == ["# one", "# two", "# three"]


def test_a_key_is_renamed_in_place() -> None:
    text = "a  .  b   =   1 # x\n"
    assert rename_key(text, ("a", "b"), "c") == "c   =   1 # x\n"


def test_a_part_of_headers_is_renamed_in_place() -> None:
    text = '[[ rigs . "overrides" ]] # x\n[rigs.overrides.env]\n'
    new = rename_tables(text, ("rigs", "overrides"), "patches")
    assert new == "[[ rigs . patches ]] # x\n[rigs.patches.env]\n"


def test_lines_are_added_to_their_table() -> None:
    text = "[[a]]\n  x = 1\n# end\n[[a]]\ny = 2"
    assert add_lines(text, ("a", 0), ["z = 3"]) == "[[a]]\n  x = 1\n  z = 3\n# end\n[[a]]\ny = 2"
    assert add_lines(text, ("a", 1), ["z = 3"]) == text + "\nz = 3\n"
    assert add_lines(text, (), ["z = 3"]) == "z = 3\n\n" + text
    assert add_lines("# all", (), ["z = 3"]) == "# all\nz = 3\n"


def test_comments_in_the_pool_of_a_patch_are_kept() -> None:
    text = '[[patches.agent]]\nname = "a"\n# b\n[patches.agent.pool] # c\nmin = 1 # d\n# e\n'
    translated = translate({"name": "a", "pool": {"min": 1}}, patch=True)
    assert pool_text(text, ("patches", "agent", 0), translated) == (
        '[[patches.agent]]\nname = "a"\n# b\n# c\nmin_active_sessions = 1 # d\n# e\n'
    )


POOLS = st.dictionaries(
    st.sampled_from(["min", "max", "check", "drain_timeout", "namepool", "odd"]),
    st.sampled_from(["1", '"a"', "'''\nb'''"]),
    min_size=1,
)


@given(POOLS, st.sampled_from(["inline", "dotted", "table"]), st.booleans())
def test_a_pool_is_converted_in_every_syntax(pool: dict[str, str], form: str, own: bool) -> None:
    pairs = [f"{name} = {value}" for name, value in pool.items()]
    written_pool = {
        "inline": f"pool = {{ {', '.join(pairs)} }}\nnudge = 'x'\n",
        "dotted": "".join(f"pool.{pair}\n" for pair in pairs) + "nudge = 'x'\n",
        "table": "nudge = 'x'\n\n[pool]\n" + "".join(f"{pair}\n" for pair in pairs),
    }[form]
    text = ("min_active_sessions = 7\n" if own else "") + written_pool
    translated = translate(parse(text.encode()))
    expected = {name: value for name, value in translated.values.items() if name != "pool"}
    written = parse(pool_text(text, (), translated).encode())
    written.pop("pool", None)
    assert written == expected


LISTS = st.lists(st.sampled_from("abc"), max_size=2, unique=True)


@given(st.none() | LISTS, st.none() | LISTS, LISTS)
def test_two_fragment_lists_become_one(
    inject: list[str] | None, append: list[str] | None, wanted: list[str]
) -> None:
    lines = [f"append_fragments = {append}\n"] if append is not None else []
    lines += [f"inject_fragments = {inject}  # why\n"] if inject is not None else []
    new = fragments_text("".join(lines), (), wanted)
    is_set = wanted or inject is not None or append is not None
    assert parse(new.encode()) == ({"append_fragments": wanted} if is_set else {})
