import difflib
from collections.abc import Mapping
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from gascity.source.edit import (
    declare_rig,
    remove_rig,
    rename_references,
    rig_entry,
    set_fields,
    set_patch,
)
from gascity.source.toml import TomlFault

AGENT = """\
# The reviewer.
#:schema ../agent.json

description = 'reads'   # in a word
max_active_sessions = 3

# Not more than these.
depends_on = [
  "mayor",  # who decides
  "scribe",
]
# end of the settings

[tools]
    allow = ["read"]  # nothing else
# deny = ["shell"]

# Two of them
[env]
REVIEW_MODE = "strict"
"A.B" = "x"
"""

CITY = """\
# The city.
[workspace]
name = "home"

# First rig
[[rigs]]
name = "web"
path = "/web"
# prefix = "w"

[rigs.imports.gastown]
source = "./packs/gastown"

# Patches between the rigs
[[patches.agent]]
name = "mayor"
nudge = "wake"

[[patches.agent]]
name = "mayor"
dir = "web"

# Second rig
[[rigs]]
name = "api"

[[rigs.patches]]
agent = "polecat"
suspended = true
[rigs.patches.env]
A = "1"

# About sessions
[[named_session]]
template = "mayor"
"""

INLINE = """\
patches.agent = [{ name = "mayor", nudge = "wake" }]
rigs = [
  { name = "web", path = "/web" }, # the site
  { name = "api", patches = [{ agent = "polecat", env = { A = "1" } }] },
]
"""


def removed_and_added(before: str, after: str) -> tuple[list[str], list[str]]:
    """Whole lines, endings included, that an edit took out and put in."""
    diff = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return (
        [line[2:] for line in diff if line.startswith("- ")],
        [line[2:] for line in diff if line.startswith("+ ")],
    )


@pytest.mark.parametrize(
    ("changes", "removed", "added"),
    [
        pytest.param(
            {"max_active_sessions": 5},
            ["max_active_sessions = 3\n"],
            ["max_active_sessions = 5\n"],
            id="a-value",
        ),
        pytest.param(
            {"description": "writes"},
            ["description = 'reads'   # in a word\n"],
            ["description = 'writes'   # in a word\n"],
            id="a-value-in-its-own-quotes",
        ),
        pytest.param(
            {"description": "it's"},
            ["description = 'reads'   # in a word\n"],
            ['description = "it\'s"   # in a word\n'],
            id="a-value-that-needs-other-quotes",
        ),
        pytest.param({"provider": "codex"}, [], ['provider = "codex"\n'], id="a-new-key"),
        pytest.param(
            {"depends_on": ["scribe", "polecat"]},
            ['  "mayor",  # who decides\n'],
            ['  "polecat",\n'],
            id="items-of-a-list",
        ),
        pytest.param(
            {"tools.allow": ["read", "write"]},
            ['    allow = ["read"]  # nothing else\n'],
            ['    allow = ["read", "write"]  # nothing else\n'],
            id="items-on-one-line",
        ),
        pytest.param({"tools.deny": ["x"]}, [], ['    deny = ["x"]\n'], id="a-new-key-of-a-table"),
        pytest.param(
            {"limits.timeout": "2h", "limits.retries": 2},
            [],
            ["\n", "[limits]\n", 'timeout = "2h"\n', "retries = 2\n"],
            id="a-new-table",
        ),
        pytest.param(
            {"max_active_sessions": None}, ["max_active_sessions = 3\n"], [], id="a-key-removed"
        ),
        pytest.param(
            {"env.REVIEW_MODE": None}, ['REVIEW_MODE = "strict"\n'], [], id="a-table-key-removed"
        ),
        pytest.param(
            {"env": {"B": "2", "REVIEW_MODE": "strict"}},
            ['"A.B" = "x"\n'],
            ['B = "2"\n'],
            id="a-whole-table",
        ),
        pytest.param(
            {"env": None},
            ["\n", "[env]\n", 'REVIEW_MODE = "strict"\n', '"A.B" = "x"\n'][1:],
            [],
            id="a-table-removed",
        ),
        pytest.param({"tools.allow": ["read"], "gone.key": None}, [], [], id="nothing"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["", "bom"])
def test_only_the_named_lines_of_an_agent_change(
    changes: dict[str, Any], removed: list[str], added: list[str], newline: str, start: str
) -> None:
    text = start + AGENT.replace("\n", newline)
    out, new = removed_and_added(text, set_fields(text, changes))
    assert [line.replace("\r\n", "\n") for line in out] == removed
    assert new == [line.replace("\n", newline) for line in added]


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        pytest.param("", {"a": 1}, "a = 1\n", id="empty-file"),
        pytest.param("", {"t.a": 1}, "[t]\na = 1\n", id="empty-file-new-table"),
        pytest.param("\ufeff", {"a": 1}, "\ufeffa = 1\n", id="only-a-byte-order-mark"),
        pytest.param("a = 1", {"b": 2}, "a = 1\nb = 2\n", id="no-final-newline"),
        pytest.param("[t]\na = 1", {"t.b": 2}, "[t]\na = 1\nb = 2\n", id="table-ends-file"),
        pytest.param("[t]", {"t.b": 2}, "[t]\nb = 2\n", id="header-ends-file"),
        pytest.param("a = 1", {"t.b": 2}, "a = 1\n\n[t]\nb = 2\n", id="table-after-last-line"),
        pytest.param("a = 1\n\n", {"t.b": 2}, "a = 1\n\n[t]\nb = 2\n", id="blank-line-is-there"),
        pytest.param("[t]\nb = 2\n", {"a": 1}, "a = 1\n\n[t]\nb = 2\n", id="first-key"),
        pytest.param(
            "# file\n\n# table\n[t]\n", {"a": 1}, "# file\n\na = 1\n\n# table\n[t]\n", id="comments"
        ),
        pytest.param("# file\n[t]\n", {"a": 1}, "# file\n\na = 1\n\n[t]\n", id="comment-on-top"),
        pytest.param("# only\n", {"a": 1}, "# only\na = 1\n", id="only-a-comment"),
        pytest.param("t.a = 1\n[u]\n", {"t.b": 2}, "t.a = 1\nt.b = 2\n[u]\n", id="dotted-keys"),
        pytest.param("t = { a = 1 }\n", {"t.b": 2}, "t = { a = 1, b = 2 }\n", id="inline"),
        pytest.param("t = {}", {"t.b.c": 2}, "t = { b.c = 2 }", id="inline-empty"),
        pytest.param(
            "t = {\n  a = 1, # x\n}\n", {"t.b": 2}, "t = {\n  a = 1, # x\n  b = 2,\n}\n", id="long"
        ),
        pytest.param("t = { a = 1, b = 2 }", {"t.b": None}, "t = { a = 1 }", id="inline-last"),
        pytest.param("t = { a = 1, b = 2 }", {"t.a": None}, "t = { b = 2 }", id="inline-first"),
        pytest.param("a = 1\nt = { b = 2 }\n", {"t.b": None}, "a = 1\n", id="inline-emptied"),
        pytest.param("a = 1\n\n[t]\nb = 2\n", {"t.b": None}, "a = 1\n", id="table-emptied"),
        pytest.param("a = 1\n\n[t.u]\nb = 2", {"t.u.b": None}, "a = 1\n", id="inner-emptied"),
        pytest.param("[t]\n[t.u]\nb = 2", {"t.u.b": None}, "", id="outer-emptied-with-it"),
        pytest.param("[t]\n# why\nb = 2\n", {"t.b": None}, "[t]\n# why\n", id="comment-left-in-it"),
        pytest.param("[t]\n\n[u]\nb = 2\n", {"u.b": None}, "[t]\n", id="was-empty-before"),
        pytest.param("t = 1\n", {"t.a": 2}, "[t]\na = 2\n", id="value-becomes-table"),
        pytest.param("[t]\na = 1\n", {"t": 2}, "t = 2\n", id="table-becomes-value"),
        pytest.param("a = true\n", {"a": 1}, "a = 1\n", id="equal-but-not-the-same"),
        pytest.param("a = 0x10\n", {"a": 16}, "a = 0x10\n", id="same-in-another-spelling"),
        pytest.param("a = ['x',\n'y']\n", {"a": ["x"]}, "a = ['x',\n]\n", id="item-out"),
        pytest.param("a = [ # x\n]\n", {"a": ["y"]}, 'a = ["y"]\n', id="list-filled"),
        pytest.param("a = ['x']\n", {"a": []}, "a = []\n", id="list-cleared"),
        pytest.param("[[t]]\n[t.u]\n", {"v.a": 1}, "[[t]]\n[t.u]\n\n[v]\na = 1\n", id="after-all"),
        pytest.param("", {"e": {"a b": "c"}}, '[e]\n"a b" = "c"\n', id="odd-key"),
        pytest.param("", {"e": {}}, "e = {}\n", id="empty-table"),
        pytest.param("", {"e": {"a": {"b": 1}}}, "[e.a]\nb = 1\n", id="table-of-tables"),
    ],
)
def test_a_field_is_written_where_a_person_would(
    text: str, changes: dict[str, Any], expected: str
) -> None:
    assert set_fields(text, changes) == expected


def test_a_patch_is_changed_in_the_last_entry_that_is_for_the_whole_city() -> None:
    first = CITY.replace('nudge = "wake"', 'nudge = "up"')
    assert set_patch(CITY, "mayor", {"nudge": "up"}) == first
    again = CITY + '\n[[patches.agent]]\nname = "mayor"\n'
    assert set_patch(again, "mayor", {"nudge": "up"}) == again + 'nudge = "up"\n'


def test_a_new_patch_goes_to_the_end_of_the_file() -> None:
    text = set_patch(CITY.rstrip(), "scribe", {"suspended": True, "env.A": "1"})
    assert text == CITY + (
        '\n[[patches.agent]]\nname = "scribe"\nsuspended = true\n\n[patches.agent.env]\nA = "1"\n'
    )
    patches = tomli.loads(text)["patches"]["agent"]
    assert patches[2] == {"name": "scribe", "suspended": True, "env": {"A": "1"}}


def test_a_table_of_a_patch_stays_with_its_entry() -> None:
    text = set_patch(CITY, "mayor", {"env.A": "1"})
    patches = tomli.loads(text)["patches"]["agent"]
    assert patches[0] == {"name": "mayor", "nudge": "wake", "env": {"A": "1"}}
    assert removed_and_added(CITY, text) == ([], ["[patches.agent.env]\n", 'A = "1"\n', "\n"])


def test_a_patch_with_nothing_left_to_say_is_removed() -> None:
    text = set_patch(CITY, "mayor", {"nudge": None})
    gone = ["[[patches.agent]]\n", 'name = "mayor"\n', 'nudge = "wake"\n', "\n"]
    out, new = removed_and_added(CITY, text)
    assert sorted(out) == sorted(gone)
    assert new == []
    assert tomli.loads(text)["patches"]["agent"] == [{"name": "mayor", "dir": "web"}]


def test_removing_from_a_patch_that_is_not_there_changes_nothing() -> None:
    assert set_patch(CITY, "scribe", {"nudge": None}) == CITY
    assert set_patch(CITY, "mayor", {"nudge": None}, rig="web") == CITY


def test_a_rig_patch_is_made_at_the_end_of_its_rig() -> None:
    text = set_patch(CITY, "mayor", {"nudge": "up"}, rig="web")
    out, new = removed_and_added(CITY, text)
    assert out == []
    assert sorted(new) == sorted(
        ["[[rigs.patches]]\n", 'agent = "mayor"\n', 'nudge = "up"\n', "\n"]
    )
    assert 'gastown"\n\n[[rigs.patches]]\nagent = "mayor"\nnudge = "up"\n\n# Patches' in text
    assert tomli.loads(text)["rigs"][0]["patches"] == [{"agent": "mayor", "nudge": "up"}]


def test_a_rig_patch_is_changed_and_emptied_in_place() -> None:
    text = set_patch(CITY, "polecat", {"env.A": None, "nudge": "up"}, rig="api")
    assert tomli.loads(text)["rigs"][1]["patches"] == [
        {"agent": "polecat", "suspended": True, "nudge": "up"}
    ]
    text = set_patch(text, "polecat", {"nudge": None, "suspended": None}, rig="api")
    assert tomli.loads(text)["rigs"][1] == {"name": "api"}
    assert 'name = "api"\n\n# About sessions\n[[named' in text


def test_a_patch_for_an_unknown_rig_is_refused() -> None:
    with pytest.raises(LookupError, match="nope"):
        set_patch(CITY, "mayor", {"nudge": "up"}, rig="nope")


def test_a_new_rig_follows_the_others() -> None:
    text = declare_rig(CITY, "docs", {"path": "/docs", "imports": {"x": {"source": "./x"}}})
    block = '[[rigs]]\nname = "docs"\npath = "/docs"\n\n[rigs.imports.x]\nsource = "./x"\n'
    assert text == CITY.replace("# About", block + "\n# About")
    assert rig_entry(text, "docs") == {
        "name": "docs",
        "path": "/docs",
        "imports": {"x": {"source": "./x"}},
    }


def test_the_first_rig_goes_to_the_end_of_the_file() -> None:
    text = declare_rig('name = "home"', "web", {"path": "/web"})
    assert text == 'name = "home"\n\n[[rigs]]\nname = "web"\npath = "/web"\n'


def test_declaring_a_rig_again_sets_its_fields() -> None:
    text = declare_rig(CITY, "web", {"path": "/new", "prefix": "w"})
    changed = (['path = "/web"\n'], ['path = "/new"\n', 'prefix = "w"\n'])
    assert removed_and_added(CITY, text) == changed
    assert declare_rig(CITY, "web", {"path": "/web"}) == CITY


def test_a_removed_rig_takes_all_its_tables_and_no_one_elses_comments() -> None:
    text = remove_rig(CITY, "web")
    parsed = tomli.loads(CITY)
    assert tomli.loads(text) == {**parsed, "rigs": parsed["rigs"][1:]}
    out, new = removed_and_added(CITY, text)
    assert new == []
    assert [line for line in out if line.startswith("#")] == ['# prefix = "w"\n']
    text = remove_rig(text, "api")
    assert "rigs" not in tomli.loads(text)
    assert "# About sessions\n[[named_session]]" in text
    assert remove_rig(text, "api") == text


def test_a_rig_split_by_other_tables_is_removed_whole() -> None:
    text = '[[rigs]]\nname = "a"\n[x]\n[rigs.env]\nA = "1"\n[[rigs]]\nname = "b"\n[rigs.env]\n'
    assert remove_rig(text, "a") == '[x]\n[[rigs]]\nname = "b"\n[rigs.env]\n'
    assert remove_rig(text, "b") == '[[rigs]]\nname = "a"\n[x]\n[rigs.env]\nA = "1"\n'


def test_a_rig_that_is_not_there_has_no_entry() -> None:
    assert rig_entry(CITY, "nope") is None
    assert rig_entry("", "nope") is None


def test_entries_written_inline_stay_inline() -> None:
    text = set_patch(INLINE, "scribe", {"nudge": "up"})
    text = set_patch(text, "mayor", {"nudge": None})
    text = set_patch(text, "polecat", {"env.A": None, "suspended": True}, rig="api")
    text = set_patch(text, "mayor", {"nudge": "up"}, rig="web")
    text = declare_rig(text, "docs", {"path": "/docs"})
    assert text == (
        'patches.agent = [{ name = "scribe", nudge = "up" }]\n'
        "rigs = [\n"
        '  { name = "web", path = "/web", patches = [{ agent = "mayor", nudge = "up" }] },'
        " # the site\n"
        '  { name = "api", patches = [{ agent = "polecat", suspended = true }] },\n'
        '  { name = "docs", path = "/docs" },\n'
        "]\n"
    )
    rigs = tomli.loads(remove_rig(text, "web"))["rigs"]
    assert [rig["name"] for rig in rigs] == ["api", "docs"]


NAMES = """\
depends_on = ["old", 'web/old', "pack.old", "older"]  # old
implicit_agents = ["old"]
description = "old"
agents_filter.allow = ["old", "ol*"]
[agent_defaults]
depends_on = ["old"]
[agent_defaults.agents_filter]
deny = [
  "old", # old
]
[[patches.agent]]
name = "old"
depends_on = ["x", "old"]
agents_filter = { deny = ["web/pack.old"] }
[[rigs]]
name = "old"
default_sling_target = 'web/old'
overrides = [{ agent = "old" }]
[[rigs.patches]]
agent = "old"
depends_on = ["old"]
[[named_session]]
template = "old"
name = "old"
"""


def test_a_rename_reaches_every_reference_and_nothing_else() -> None:
    text, changed = rename_references(NAMES, "old", "new")
    assert changed == [
        ("depends_on", 0),
        ("depends_on", 1),
        ("agents_filter", "allow", 0),
        ("agent_defaults", "depends_on", 0),
        ("agent_defaults", "agents_filter", "deny", 0),
        ("patches", "agent", 0, "name"),
        ("patches", "agent", 0, "depends_on", 1),
        ("rigs", 0, "default_sling_target"),
        ("rigs", 0, "overrides", 0, "agent"),
        ("rigs", 0, "patches", 0, "agent"),
        ("rigs", 0, "patches", 0, "depends_on", 0),
        ("named_session", 0, "template"),
    ]
    assert text.startswith("""depends_on = ["new", 'web/new', "pack.old", "older"]  # old\n""")
    assert "'web/new'\noverrides" in text
    assert rename_references(text, "new", "old") == (NAMES, changed)
    assert rename_references(NAMES, "nobody", "new") == (NAMES, [])


def test_text_that_is_not_toml_is_refused() -> None:
    with pytest.raises(TomlFault):
        set_fields("a = ", {})
    with pytest.raises(TomlFault):
        rename_references("a = ", "a", "b")


LAYOUTS = st.sampled_from(
    [
        "",
        AGENT,
        AGENT.rstrip().replace("\n", "\r\n"),
        "a = 1\nb.a = 2 # x\nb.c.a = 3\n\n[c]\n  a.b = 1\n  [c.b]\n  c = 2",
        "[a.b.c]\nb = 1\n\n# x\n[a]\nb.a = 1\n[[b]]\na = 1\n[b.c]\n[[b]]",
        "a = { b = { c = 1 }, c.a = 2 }\nb = [\n  1, # one\n  2 # two\n]\nc = { # x\n}\n",
        "# x\n\n[b]\n# y\n\n[c.a]\n# z\n\n# end",
        "a = [[1], { b = 2 },] # x\nc = {\n  a = 1, b = 2, # x\n  c = 3 }\n",
    ]
)
KEYS = st.lists(st.sampled_from(["a", "b", "c", "é"]), min_size=1, max_size=3).map(".".join)
SCALARS = st.one_of(st.integers(0, 3), st.booleans(), st.text(max_size=3), st.floats(0, 1))
VALUES = st.one_of(
    st.none(),
    SCALARS,
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(
        st.sampled_from(["a", "b", "x y"]),
        SCALARS | st.dictionaries(st.sampled_from(["a", "q.r"]), SCALARS, max_size=2),
        max_size=2,
    ),
)


def expected(document: Any, keys: list[str], value: Any) -> Any:
    """The document after one change, without what it emptied."""
    name, *rest = keys
    table = dict(document) if isinstance(document, dict) else {}
    if value is None and name not in table:
        return document
    if not rest:
        return {k: v for k, v in {**table, name: value}.items() if v is not None}
    inner = expected(table.get(name, {}), rest, value)
    emptied = value is None and inner == {} and table[name] != {}
    return {k: v for k, v in {**table, name: inner}.items() if not (k == name and emptied)}


def commented_tables_may_stay(document: Any) -> Any:
    """Drop empty tables: one that holds a comment is kept when it is emptied."""
    if not isinstance(document, dict):
        return document
    inner = {key: commented_tables_may_stay(value) for key, value in document.items()}
    return {key: value for key, value in inner.items() if value != {}}


@given(LAYOUTS, st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_changes_say_what_was_asked_and_lose_no_comment(
    text: str, changes: dict[str, Any]
) -> None:
    document: Any = tomli.loads(text)
    for key, value in changes.items():
        after = set_fields(text, {key: value})
        document = expected(tomli.loads(text), key.split("."), value)
        parsed = tomli.loads(after)
        assert commented_tables_may_stay(parsed) == commented_tables_may_stay(document)
        assert set_fields(after, {key: value}) == after
        text = after
