from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from gascity.toml import edit
from gascity.toml.positions import marks, sections
from gascity.toml.read import TomlError

AGENT = """\
# The reviewer.

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
# A rig between whose tables there are others, and entries in every form.
SPLIT = (
    '[[rigs]]\nname = "web"\n[rigs.env]\nA = "1" # one\n\n[patches]\n# none yet\n\n'
    '[[rigs.patches]]\nagent = "mayor" # of web\nnudge = "x"\n\n[x]\n[rigs.tools]\nallow = "y"\n'
    '[[rigs]]\nname = "api"\nenv.B = "2"\n[[rigs.patches]]\nagent = "mayor"\nenv = { A = "3" }\n'
)
SCRIBE = '  "scribe",\n'
DEPENDS = '  "mayor",  # who decides\n' + SCRIBE
ENV = 'REVIEW_MODE = "strict"\n"A.B" = "x"\n'
LIMITS = '\n[limits]\ntimeout = "2h"\nx = 2\n'


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        pytest.param({"max_active_sessions": 5}, "= 3", "= 5", id="value"),
        pytest.param({"description": "writes"}, "'reads'", "'writes'", id="value-keeps-its-quotes"),
        pytest.param({"description": "it's"}, "'reads'", '"it\'s"', id="value-needs-other-quotes"),
        pytest.param({"scope": "rig"}, "]\n# end", ']\nscope = "rig"\n# end', id="new-key"),
        pytest.param({"depends_on": ["scribe", "x"]}, DEPENDS, SCRIBE + '  "x",\n', id="long-list"),
        pytest.param({"tools.allow": ["read", "x"]}, '["read"]', '["read", "x"]', id="short-list"),
        pytest.param({"tools.deny": ["x"]}, "# deny", '    deny = ["x"]\n# deny', id="new-inside"),
        pytest.param({"limits.timeout": "2h", "limits.x": 2}, ENV, ENV + LIMITS, id="new-table"),
        pytest.param({"max_active_sessions": None}, "max_active_sessions = 3\n", "", id="key-out"),
        pytest.param({"env.REVIEW_MODE": None}, ENV, '"A.B" = "x"\n', id="key-of-table-out"),
        pytest.param({"env": {"B": "2", "A.B": "x"}}, ENV, '"A.B" = "x"\nB = "2"\n', id="table"),
        pytest.param({"env": None}, "[env]\n" + ENV, "", id="table-out"),
        pytest.param({"tools.allow": ["read"], "gone.key": None}, "", "", id="nothing"),
    ],
)
@pytest.mark.parametrize(("start", "newline"), [("", "\n"), ("", "\r\n"), ("\ufeff", "\n")])
def test_only_the_given_fields_of_an_agent_change(
    changes: dict[str, Any], old: str, new: str, newline: str, start: str
) -> None:
    text, after = AGENT.replace("\n", newline), AGENT.replace(old, new).replace("\n", newline)
    assert edit.set_fields(start + text, changes) == start + after


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        pytest.param("", {"a": 1}, "a = 1\n", id="empty-file"),
        pytest.param("\ufeff", {"a": 1}, "\ufeffa = 1\n", id="only-a-byte-order-mark"),
        pytest.param("a = 1", {"b": 2}, "a = 1\nb = 2\n", id="no-final-newline"),
        pytest.param("[t]\na = 1", {"t.b": 2}, "[t]\na = 1\nb = 2\n", id="table-ends-file"),
        pytest.param("[t]", {"t.b": 2}, "[t]\nb = 2\n", id="header-ends-file"),
        pytest.param("a = 1", {"t.b": 2}, "a = 1\n\n[t]\nb = 2\n", id="table-after-last-line"),
        pytest.param("a = 1\n\n", {"t.b": 2}, "a = 1\n\n[t]\nb = 2\n", id="blank-line-is-there"),
        pytest.param("[t]\nb = 2\n", {"a": 1}, "a = 1\n\n[t]\nb = 2\n", id="first-key"),
        pytest.param("# f\n\n# t\n[t]\n", {"a": 1}, "# f\n\na = 1\n\n# t\n[t]\n", id="comments"),
        pytest.param("# file\n[t]\n", {"a": 1}, "# file\n\na = 1\n\n[t]\n", id="comment-on-top"),
        pytest.param("# only\n", {"a": 1}, "# only\na = 1\n", id="only-a-comment"),
        pytest.param("t.a = 1\n[u]\n", {"t.b": 2}, "t.a = 1\nt.b = 2\n[u]\n", id="dotted-keys"),
        pytest.param("t = { a = 1 }\n", {"t.b": 2}, "t = { a = 1, b = 2 }\n", id="inline"),
        pytest.param("t = {}", {"t.b.c": 2}, "t = { b.c = 2 }", id="inline-empty"),
        pytest.param("t = {\n a=1, # x\n}", {"t.b": 2}, "t = {\n a=1, # x\n b = 2,\n}", id="long"),
        pytest.param("t = { a = 1, b = 2 }", {"t.b": None}, "t = { a = 1 }", id="inline-last"),
        pytest.param("a = 1\nt = { b = 2 }\n", {"t.b": None}, "a = 1\n", id="inline-emptied"),
        pytest.param("a = 1\n\n[t]\nb = 2\n", {"t.b": None}, "a = 1\n", id="table-emptied"),
        pytest.param("a = 1\n\n[t.u]\nb = 2", {"t.u.b": None}, "a = 1\n", id="inner-emptied"),
        pytest.param("[t]\n[t.u]\nb = 2", {"t.u.b": None}, "", id="outer-emptied-with-it"),
        pytest.param("[t]\n# why\nb = 2\n", {"t.b": None}, "[t]\n# why\n", id="comment-left-in-it"),
        pytest.param("t = 1\n", {"t.a": 2}, "[t]\na = 2\n", id="value-becomes-table"),
        pytest.param("[t]\na = 1\n", {"t": 2}, "t = 2\n", id="table-becomes-value"),
        pytest.param("a = true\n", {"a": 1}, "a = 1\n", id="equal-but-not-the-same"),
        pytest.param("a = 0x10\n", {"a": 16}, "a = 0x10\n", id="same-in-another-spelling"),
        pytest.param("a = ['x',\n'y']\n", {"a": ["x"]}, "a = ['x',\n]\n", id="item-out"),
        pytest.param("a = [ # x\n]\n", {"a": ["y"]}, 'a = ["y" # x\n]\n', id="list-filled"),
        pytest.param("[[t]]\n[t.u]\n", {"v.a": 1}, "[[t]]\n[t.u]\n\n[v]\na = 1\n", id="after-all"),
        pytest.param("", {"e": {}}, "e = {}\n", id="empty-table"),
        pytest.param("", {"e": {"a": {"b": 1}}}, "[e.a]\nb = 1\n", id="table-of-tables"),
    ],
)
def test_a_field_is_written_where_a_user_would_write_it(
    text: str, changes: dict[str, Any], expected: str
) -> None:
    assert edit.set_fields(text, changes) == expected


def test_a_city_patch_is_changed_in_the_last_entry_without_a_dir() -> None:
    first = CITY.replace('nudge = "wake"', 'nudge = "up"')
    assert edit.set_patch(CITY, "mayor", {"nudge": "up"}) == first
    again = CITY + '\n[[patches.agent]]\nname = "mayor"\n'
    assert edit.set_patch(again, "mayor", {"nudge": "up"}) == again + 'nudge = "up"\n'


def test_a_new_patch_goes_to_the_end_of_the_file() -> None:
    text = edit.set_patch(CITY.rstrip(), "scribe", {"suspended": True, "env.A": "1"})
    assert text == CITY + (
        '\n[[patches.agent]]\nname = "scribe"\nsuspended = true\n\n[patches.agent.env]\nA = "1"\n'
    )


def test_a_patch_without_settings_is_removed() -> None:
    text = edit.set_patch(CITY, "mayor", {"nudge": None})
    assert "# Patches between the rigs\n\n[[patches.agent]]\n" in text
    assert tomli.loads(text)["patches"]["agent"] == [{"name": "mayor", "dir": "web"}]


def test_removing_a_patch_that_does_not_exist_changes_nothing() -> None:
    assert edit.set_patch(CITY, "scribe", {"nudge": None}) == CITY
    assert edit.set_patch(CITY, "mayor", {"nudge": None}, rig="web") == CITY
    with pytest.raises(LookupError, match="nope"):
        edit.set_patch(CITY, "mayor", {"nudge": None}, rig="nope")


def test_a_new_rig_patch_is_added_at_the_end_of_its_rig() -> None:
    text = edit.set_patch(CITY, "mayor", {"nudge": "up"}, rig="web")
    block = '[[rigs.patches]]\nagent = "mayor"\nnudge = "up"\n\n'
    assert text == CITY.replace("# Patches between", block + "# Patches between")
    assert tomli.loads(text)["rigs"][0]["patches"] == [{"agent": "mayor", "nudge": "up"}]


def test_a_rig_patch_is_changed_and_removed_in_place() -> None:
    text = edit.set_patch(CITY, "polecat", {"env.A": None, "nudge": "up"}, rig="api")
    assert 'suspended = true\nnudge = "up"\n\n# About sessions' in text
    text = edit.set_patch(text, "polecat", {"nudge": None, "suspended": None}, rig="api")
    assert 'name = "api"\n\n# About sessions\n[[named' in text


def test_a_new_rig_follows_the_others() -> None:
    fields = {"path": "/docs", "imports": {"x": {"source": "./x"}}}
    text = edit.declare_rig(CITY, "docs", fields)
    block = '[[rigs]]\nname = "docs"\npath = "/docs"\n\n[rigs.imports.x]\nsource = "./x"\n'
    assert text == CITY.replace("# About", block + "\n# About")
    assert edit.rig_entry(text, "docs") == {"name": "docs", **fields}
    assert edit.rig_entry(CITY, "docs") is None
    assert edit.declare_rig("a = 1", "x", {}) == 'a = 1\n\n[[rigs]]\nname = "x"\n'


def test_declaring_a_rig_again_sets_its_fields() -> None:
    text = edit.declare_rig(CITY, "web", {"path": "/new", "prefix": "w"})
    assert text == CITY.replace('path = "/web"\n', 'path = "/new"\nprefix = "w"\n')
    assert edit.declare_rig(CITY, "web", {"path": "/web"}) == CITY


def test_removing_a_rig_removes_its_tables_but_no_other_comments() -> None:
    start, end = CITY.index("[[rigs]]"), CITY.index("\n# Patches")
    text = edit.remove_rig(CITY, "web")
    assert text == CITY[:start] + CITY[end:]
    start, end = text.index("\n[[rigs]]"), text.index("\n\n# About")
    assert edit.remove_rig(text, "api") == text[:start] + text[end:]


def test_entries_written_inline_stay_inline() -> None:
    text = edit.set_patch(INLINE, "scribe", {"nudge": "up"})
    text = edit.set_patch(text, "mayor", {"nudge": None})
    text = edit.set_patch(text, "polecat", {"env.A": None, "suspended": True}, rig="api")
    text = edit.set_patch(text, "mayor", {"nudge": "up"}, rig="web")
    text = edit.declare_rig(text, "docs", {"path": "/docs"})
    assert text == (
        'patches.agent = [{ name = "scribe", nudge = "up" }]\n'
        "rigs = [\n"
        '  { name = "web", path = "/web", patches = [{ agent = "mayor", nudge = "up" }] },'
        " # the site\n"
        '  { name = "api", patches = [{ agent = "polecat", suspended = true }] },\n'
        '  { name = "docs", path = "/docs" },\n'
        "]\n"
    )


NAMES = """\
depends_on = ["old", 'web/old', "pack.old", "older"]  # old
implicit_agents = ["old"]
description = "old"
agents_filter.allow = ["old", "ol*"]
named_session = [{ template = "old", name = "old" }]
agent_defaults = { depends_on = ["old"], agents_filter.deny = ["old"] }
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
"""


def test_a_rename_changes_every_reference_and_nothing_else() -> None:
    text, changed = edit.rename_references(NAMES, "old", "new")
    assert changed[0] == ("depends_on", 0)
    assert " ".join(".".join(map(str, path)) for path in changed) == (
        "depends_on.0 depends_on.1 agents_filter.allow.0 named_session.0.template "
        "agent_defaults.depends_on.0 agent_defaults.agents_filter.deny.0 patches.agent.0.name "
        "patches.agent.0.depends_on.1 rigs.0.default_sling_target rigs.0.overrides.0.agent "
        "rigs.0.patches.0.agent rigs.0.patches.0.depends_on.0"
    )
    assert text.startswith("""depends_on = ["new", 'web/new', "pack.old", "older"]  # old\n""")
    assert "'web/new'\noverrides" in text
    assert edit.rename_references(text, "new", "old") == (NAMES, changed)
    assert edit.rename_references(NAMES, "nobody", "new") == (NAMES, [])


def test_invalid_toml_is_rejected() -> None:
    with pytest.raises(TomlError):
        edit.rename_references("a = ", "a", "b")


AGENTS = st.sampled_from(
    [
        "",
        AGENT,
        AGENT.rstrip().replace("\n", "\r\n"),
        "a = 1\nb.a = 2 # x\nb.c.a = 3\n\n[c]\n  a.b = 1\n  [c.b]\n  c = 2",
        "[a.b.c]\nb = 1\n\n# x\n[a]\nb.a = 1\n[[d]]\na = 1\n[d.c]\n[[d]]",
        "a = { b = { c = 1 }, c.a = 2 }\nb = [\n  1, # one\n  2 # two\n]\nc = { # x\n}\n",
        "# x\n\n[b]\n# y\n\n[c.a]\n# z\n\n# end",
        "a = [[1], { b = 2 },] # x\nc = {\n  a = 1, b = 2, # x\n  c = 3 }\n",
    ]
)
KEYS = st.lists(st.sampled_from(["a", "b", "c", "é"]), min_size=1, max_size=3).map(".".join)
SCALARS = st.one_of(st.integers(0, 3), st.booleans(), st.text(max_size=3), st.floats(0, 1))
INNER = st.dictionaries(st.sampled_from(["a", "q.r"]), SCALARS, max_size=2)
TABLES = st.dictionaries(st.sampled_from(["a", "b", "x y"]), SCALARS | INNER, max_size=2)
VALUES = st.none() | SCALARS | st.lists(st.integers(0, 3), max_size=3) | TABLES


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


def without_empty(value: Any) -> Any:
    """An emptied table stays where it holds a comment, and an emptied inline array always."""
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: without_empty(item) for key, item in value.items()}
    return {key: item for key, item in inner.items() if item not in ({}, [])}


def lines_not_concerned(text: str, path: tuple[str, ...]) -> list[str]:
    """All lines but blank ones and those that hold what is at, under or around the path."""
    concerned: set[int] = set()
    headers = [header.start for header, _ in sections(text)] + [len(text)]
    for mark in marks(text):
        under, around = mark.path[: len(path)] == path, path[: len(mark.path)] == mark.path
        end = mark.end
        if under and mark.kind in ("table", "entry"):
            end = headers[headers.index(mark.start) + 1]
        if (under or around) and mark.kind != "part":
            concerned |= set(range(text.count("\n", 0, mark.start), text.count("\n", 0, end) + 1))
    lines = enumerate(text.split("\n"))
    return [line.strip() for number, line in lines if line.strip() and number not in concerned]


@given(AGENTS, st.lists(st.tuples(KEYS, VALUES), max_size=4))
def test_any_changes_set_the_given_values_and_keep_every_other_line(
    text: str, changes: list[tuple[str, Any]]
) -> None:
    for key, value in changes:
        path = key.split(".")
        after = edit.set_fields(text, {key: value})
        wanted = expected(tomli.loads(text), path, value)
        assert without_empty(tomli.loads(after)) == without_empty(wanted)
        assert edit.set_fields(after, {key: value}) == after
        rest = iter([line.strip() for line in after.split("\n")])
        assert all(line in rest for line in lines_not_concerned(text, tuple(path)))
        text = after


CITIES = st.sampled_from([CITY, CITY.rstrip().replace("\n", "\r\n"), INLINE, SPLIT, ""])
NAMED = st.tuples(st.sampled_from(["mayor", "polecat"]), st.sampled_from([None, "web", "docs"]))
SETTINGS = st.sampled_from(["nudge", "env.A", "env.B", "tools.allow"])
EDITS = st.tuples(NAMED, st.dictionaries(SETTINGS, st.none() | st.text(max_size=2)))


def take_patch(document: dict[str, Any], target: str, rig: str | None) -> dict[str, Any] | None:
    """Take the entry that set_patch works on out of a document."""
    home: Any = next((one for one in document.get("rigs", ()) if one["name"] == rig), {})
    entries = home.get("patches", ()) if rig else document.get("patches", {}).get("agent", ())
    key = "agent" if rig else "name"
    named = [n for n, one in enumerate(entries) if one[key] == target and "dir" not in one]
    return entries.pop(named[-1]) if named else None


@given(CITIES, st.lists(EDITS, max_size=4))
def test_any_patches_set_the_given_values_and_change_nothing_else(
    text: str, edits: list[tuple[tuple[str, str | None], dict[str, Any]]]
) -> None:
    for (target, rig), changes in edits:
        if rig and not edit.rig_entry(text, rig):
            text = edit.declare_rig(text, rig, {})
        after = edit.set_patch(text, target, changes, rig=rig)
        before, now = tomli.loads(text), tomli.loads(after)
        bare = {"agent" if rig else "name": target}
        entry = take_patch(before, target, rig) or bare
        for key, value in changes.items():
            entry = expected(entry, key.split("."), value)
        assert (take_patch(now, target, rig) or bare) == entry
        assert without_empty(now) == without_empty(before)
        comments = [line for line in after.split("\n") if line.startswith("#")]
        assert comments == [line for line in text.split("\n") if line.startswith("#")]
        text = after


@given(CITIES, st.lists(st.sampled_from(["web", "api", "docs"])))
def test_adding_and_removing_rigs_changes_nothing_else(text: str, names: list[str]) -> None:
    for name in names:
        document = tomli.loads(text)
        rigs = [rig for rig in document.get("rigs", []) if rig["name"] != name]
        if edit.rig_entry(text, name):
            text = edit.remove_rig(text, name)
        else:
            text = edit.declare_rig(text, name, {"path": "/p"})
            rigs.append({"name": name, "path": "/p"})
        assert without_empty(tomli.loads(text)) == without_empty({**document, "rigs": rigs})
