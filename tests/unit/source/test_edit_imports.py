"""Adding imports to a user's TOML and removing them keeps every other byte."""

from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from gascity.toml.edit import declare_import, remove_import

CITY = """\
# The city.
[workspace]
name = "home"  # here

# Our people
[imports.crew]   # who
source = 'packs/crew'
# a note

# First rig
[[rigs]]
name = "web"
# prefix = "w"

[[rigs]]
name = "api"
imports = ["crew", "tools"]  # by name

[[patches.agent]]
name = "crew.pilot"
"""
TOOLS = {"source": "https://example.org/tools.git//a", "version": "^1.2.0"}


def test_a_new_import_is_added_below_the_others_between_blank_lines() -> None:
    added = '[imports.tools]\nsource = "https://example.org/tools.git//a"\nversion = "^1.2.0"\n\n'
    text = declare_import(CITY, "tools", TOOLS)
    assert text == CITY.replace("# First rig\n", added + "# First rig\n")
    assert remove_import(text, "tools") == CITY


def test_an_import_for_a_rig_is_added_to_that_rig() -> None:
    text = declare_import(CITY, "tools", TOOLS, rig="web")
    assert tomli.loads(text)["rigs"][0]["imports"] == {"tools": TOOLS}
    assert text.index("[rigs.imports.tools]") < text.index('name = "api"')
    assert remove_import(text, "tools", rig="web") == CITY


def test_an_import_for_an_undeclared_rig_is_rejected() -> None:
    with pytest.raises(LookupError):
        declare_import(CITY, "tools", TOOLS, rig="sea")
    with pytest.raises(LookupError):
        remove_import(CITY, "tools", rig="sea")


def test_removing_a_name_from_a_rigs_list_keeps_the_comment_after_it() -> None:
    text = remove_import(CITY, "crew", rig="api")
    assert text == CITY.replace('["crew", "tools"]', '["tools"]')
    assert "imports" not in remove_import(text, "tools", rig="api").partition('"api"')[2]


def test_comments_above_a_removed_import_stay() -> None:
    text = remove_import(CITY, "crew")
    assert "# Our people\n" in text
    assert "imports" not in tomli.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("# only a comment", id="no-last-newline"),
        pytest.param("[pack]\r\nname = 'x'\r\n", id="windows-line-ends"),
        pytest.param("imports.a.source = 'x'\n", id="dotted"),
        pytest.param("imports = {a = {source = 'x'}}\n", id="inline"),
        pytest.param("[imports]\na.source = 'x'\n", id="dotted-in-a-table"),
        pytest.param("[imports]\n# none yet\n", id="table-with-a-comment"),
    ],
)
def test_an_import_can_be_added_and_removed_in_every_notation(text: str) -> None:
    added = declare_import(text, "tools", TOOLS)
    before = tomli.loads(text).get("imports", {})
    assert tomli.loads(added)["imports"] == {**before, "tools": TOOLS}
    assert "\r\n" not in text or "\n" not in added.replace("\r\n", "")
    removed = remove_import(added, "tools")
    assert removed.rstrip() == text.rstrip()


names = st.text("abcxyz-_0", min_size=1, max_size=6).filter(lambda name: name[0] not in "-_")
plain = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)
wishes = st.fixed_dictionaries({"source": plain}, optional={"version": plain})


@given(st.dictionaries(names, wishes, max_size=4), names, wishes)
def test_adding_and_removing_an_import_changes_only_that_import(
    held: dict[str, Any], name: str, wish: dict[str, Any]
) -> None:
    text = "# top\n[workspace]\nname = 'x'\n"
    for binding, values in held.items():
        text = declare_import(text, binding, values)
    assert tomli.loads(text).get("imports", {}) == held
    text = declare_import(text, name, wish)
    assert tomli.loads(text)["imports"] == {**held, name: wish}
    rest = {binding: values for binding, values in held.items() if binding != name}
    assert tomli.loads(remove_import(text, name)).get("imports", {}) == rest
