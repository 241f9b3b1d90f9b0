"""`city agent new|set|rename`: edits where they belong, everything else left byte for byte."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import contents
from tests.cli.shapes import PROBLEMS, fits
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

COMMENTED = """\
# The mayor. Handle with care.

description = "Rules."   # what it does
max_active_sessions = 3

[env]  # of its sessions
TIDE = 'low'
  # indented comment
MOON    =    "full"
"""
CITY = """\
# top

[workspace]   # ours
provider = "claude"


[imports.crew]
source = "packs/crew"      # a pack

[[rigs]]
name = "dock"
# about the dock

# last words
"""


@pytest.fixture
def edited(town: Callable[..., Path]) -> Path:
    return town(
        {
            "city.toml": CITY,
            "city.local.toml": '[[rigs]]\nname = "dock"\npath = "dock"\n',
            "dock/README.md": "Dock.\n",
            "agents/mayor/prompt.md": "Mayor.\n",
            "agents/mayor/agent.toml": COMMENTED,
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/agents/pilot/prompt.md": "Pilot.\n",
        }
    )


def changed_lines(before: str, after: str) -> list[str]:
    """Lines of a diff, without context."""
    import difflib

    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line for line in lines if line[:1] in "+-"]


def test_a_new_agent_is_a_folder_with_a_prompt_and_its_settings(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town()
    ran = run("agent", "new", "night-watch", "--description", "Keeps watch.", cwd=root)
    assert ran == Ran(
        0,
        "Created:\n"
        "  agents/night-watch/prompt.md\n"
        "  agents/night-watch/agent.toml\n"
        "Next: edit agents/night-watch/prompt.md, then `city agent show night-watch`\n",
        "",
    )
    assert (root / "agents/night-watch/agent.toml").read_text() == (
        '#:schema ../../.gc/schemas/agent.schema.json\ndescription = "Keeps watch."\n'
    )
    prompt = (root / "agents/night-watch/prompt.md").read_text()
    assert prompt.startswith("# Night watch\n\nYou are night-watch. Keeps watch.\n")
    assert run("check", "--strict", cwd=root).code == 0


def test_a_new_agent_as_json(run: Command, town: Callable[..., Path]) -> None:
    ran = run("agent", "new", "cook", "--json", cwd=town())
    assert ran.json == {
        "schema": 1,
        "name": "cook",
        "created": ["agents/cook/prompt.md", "agents/cook/agent.toml"],
    }


def test_a_new_agent_may_begin_with_a_template_and_a_provider(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town()
    assert run("agent", "new", "cook", "--template", "--provider", "codex", cwd=root).code == 0
    assert (root / "agents/cook/prompt.template.md").is_file()
    assert run("agent", "show", "cook", "--json", cwd=root).json["provider"] == "codex"
    assert run("check", "--strict", cwd=root).code == 0


def test_a_description_with_quotes_and_lines_is_kept(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town()
    text = 'Says "hello" \\ and\nmore {braces}.'
    assert run("agent", "new", "cook", "--description", text, cwd=root).code == 0
    assert run("agent", "show", "cook", "--json", cwd=root).json["description"] == text
    assert text in (root / "agents/cook/prompt.md").read_text()


@pytest.mark.parametrize(
    "name",
    ["..", ".", "a/b", "../up", "/etc", "with space", "_hidden", ".dot", "x.y", "", "ñ", "-x"],
)
def test_a_new_agent_with_an_impossible_name_is_refused(
    run: Command, town: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    town()
    before = contents(tmp_path)
    ran = run("agent", "new", "--json", "--", name, cwd=tmp_path / "town")
    assert ran.code == 1
    fits(ran.json, PROBLEMS)
    assert [problem["code"] for problem in ran.json["problems"]] == ["bad-name"]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["mayor", "MAYOR"], ids=["same", "other-case"])
def test_a_new_agent_never_takes_a_name_that_is_there(
    run: Command, edited: Path, name: str
) -> None:
    before = contents(edited)
    ran = run("agent", "new", name, cwd=edited)
    assert ran == Ran(1, "", "city: error: agents/mayor already exists [duplicate-name]\n")
    assert contents(edited) == before


def test_a_new_agent_of_an_unknown_provider_is_refused_with_a_suggestion(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town()
    ran = run("agent", "new", "cook", "--provider", "codx", cwd=root)
    assert ran == Ran(
        1,
        "",
        "city: error: there is no provider `codx` [unknown-provider]\n"
        "  hint: did you mean `codex`?\n",
    )
    assert not (root / "agents").exists()


def test_a_new_agent_is_not_written_through_a_linked_agents_directory(
    run: Command, town: Callable[..., Path], tmp_path: Path
) -> None:
    root = town()
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "agents").symlink_to(outside)
    ran = run("agent", "new", "cook", cwd=root)
    assert ran.err.endswith(
        " a parent directory is a symlink [refused]\n  hint: nothing was changed\n"
    )
    assert contents(outside) == {}


def test_setting_a_value_changes_that_value_and_no_other_byte(run: Command, edited: Path) -> None:
    file = edited / "agents/mayor/agent.toml"
    ran = run("agent", "set", "mayor", "max_active_sessions=5", cwd=edited)
    assert ran == Ran(
        0,
        "agents/mayor/agent.toml: updated max_active_sessions; next: `city agent explain mayor`\n",
        "",
    )
    assert file.read_text() == COMMENTED.replace("sessions = 3", "sessions = 5")


def test_setting_as_json_says_which_file_and_fields(run: Command, edited: Path) -> None:
    ran = run("agent", "set", "mayor", "hidden=true", "--unset", "env.TIDE", "--json", cwd=edited)
    assert ran.code == 0
    assert ran.json["agent"] == "mayor"
    assert ran.json["file"] == "agents/mayor/agent.toml"
    assert sorted(ran.json["fields"]) == ["env.TIDE", "hidden"]


@pytest.mark.parametrize(
    ("assignment", "field", "value"),
    [
        ("nudge=hello there", "nudge", "hello there"),
        ('nudge="quoted"', "nudge", "quoted"),
        ("hidden=true", "hidden", True),
        ("max_active_sessions=-1", "max_active_sessions", -1),
        ("depends_on=[]", "depends_on", []),
        ('tools.allow=["a", "b"]', "tools.allow", ["a", "b"]),
        ("limits.timeout=90s", "limits.timeout", "90s"),
        ("display_name=", "display_name", ""),
        ('nudge=has "quotes" and = sign', "nudge", 'has "quotes" and = sign'),
        ("nudge=smörgås", "nudge", "smörgås"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_values_are_toml_and_a_bare_word_is_a_string(
    run: Command, edited: Path, assignment: str, field: str, value: object
) -> None:
    assert run("agent", "set", "mayor", assignment, cwd=edited).code == 0
    fields = run("agent", "show", "mayor", "--json", cwd=edited).json["fields"]
    assert fields[field]["value"] == value


def test_unset_goes_back_to_what_is_inherited(run: Command, edited: Path) -> None:
    file = edited / "agents/mayor/agent.toml"
    ran = run("agent", "set", "mayor", "--unset", "max_active_sessions", cwd=edited)
    assert ran.code == 0
    assert file.read_text() == COMMENTED.replace("max_active_sessions = 3\n", "")


def test_an_imported_agent_is_set_by_a_patch_in_city_toml(run: Command, edited: Path) -> None:
    before = contents(edited)
    ran = run("agent", "set", "crew.pilot", "max_active_sessions=4", cwd=edited)
    assert (ran.code, ran.err) == (0, "")
    after = contents(edited)
    assert {name for name in after if after[name] != before.get(name)} == {"city.toml"}
    assert changed_lines(CITY, (edited / "city.toml").read_text()) == [
        "+ \n",
        "+ [[patches.agent]]\n",
        '+ name = "crew.pilot"\n',
        "+ max_active_sessions = 4\n",
    ]
    chain = run("agent", "explain", "crew.pilot", "max_active_sessions", "--json", cwd=edited)
    assert chain.json["fields"]["max_active_sessions"][0]["layer"] == "city patch"


def test_a_second_setting_joins_the_same_patch(run: Command, edited: Path) -> None:
    run("agent", "set", "crew.pilot", "max_active_sessions=4", cwd=edited)
    run("agent", "set", "pilot", "hidden=true", cwd=edited)
    text = (edited / "city.toml").read_text()
    assert text.count("[[patches.agent]]") == 1
    run(
        "agent",
        "set",
        "crew.pilot",
        "--unset",
        "hidden",
        "--unset",
        "max_active_sessions",
        cwd=edited,
    )
    assert "patches" not in (edited / "city.toml").read_text()


def test_an_agent_in_a_rig_is_set_by_a_patch_of_that_rig(run: Command, edited: Path) -> None:
    ran = run("agent", "set", "dock/crew.pilot", "max_active_sessions=4", cwd=edited)
    assert (ran.code, ran.err) == (0, "")
    chain = run("agent", "explain", "dock/crew.pilot", "max_active_sessions", "--json", cwd=edited)
    assert chain.json["fields"]["max_active_sessions"][0]["layer"] == "rig patch"
    assert all(line in (edited / "city.toml").read_text() for line in CITY.splitlines())


def test_a_built_in_agent_is_set_by_a_patch(run: Command, edited: Path) -> None:
    ran = run("agent", "set", "claude", "max_active_sessions=9", cwd=edited)
    assert ran.code == 0
    assert run("agent", "show", "claude", "--json", cwd=edited).json["max"] == 9


def test_an_unconfigured_built_in_provider_may_be_set(run: Command, edited: Path) -> None:
    ran = run("agent", "set", "gemini", "max_active_sessions=9", cwd=edited)
    assert ran.code == 0
    assert run("agent", "show", "gemini", "--json", cwd=edited).json["max"] == 9


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(("hiden=true",), 1, "did you mean `hidden`?", id="unknown-field"),
        pytest.param(("hidden=maybe",), 1, "should be true or false", id="wrong-type"),
        pytest.param(("max_active_sessions=-2",), 1, "at least -1", id="out-of-range"),
        pytest.param(("provider=codx",), 1, "did you mean `codex`?", id="unknown-provider"),
        pytest.param(("prompt=nowhere.md",), 1, "nowhere.md does not exist", id="missing-file"),
        pytest.param(("prompt=../../../up.md",), 1, "leads out of", id="path-out-of-the-pack"),
        pytest.param(("depends_on=[3]",), 1, "should be a list of strings", id="wrong-item"),
        pytest.param(("hidden",), 2, "expected FIELD=VALUE", id="no-equals"),
        pytest.param((), 2, "nothing to change", id="nothing"),
        pytest.param(("env={A=1}",), 1, "should be a string", id="wrong-map"),
        pytest.param(("nudge=a\nb = 1",), 0, "", id="newline-is-text"),
        pytest.param(("name=other",), 1, "is not an agent setting", id="name"),
    ],
)
def test_a_change_that_would_break_the_city_is_refused_and_nothing_is_written(
    run: Command, edited: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = contents(edited)
    ran = run("agent", "set", "mayor", *arguments, cwd=edited)
    assert ran.code == code
    assert words in ran.err
    if code:
        assert ran.out == ""
        assert contents(edited) == before
    else:
        fields = run("agent", "show", "mayor", "--json", cwd=edited).json["fields"]
        assert fields["nudge"]["value"] == "a\nb = 1"


def test_a_refused_change_points_into_the_text_that_was_tried(run: Command, edited: Path) -> None:
    ran = run("agent", "set", "mayor", "hidden=maybe", cwd=edited)
    assert ran.err == (
        "agents/mayor/agent.toml:5:10: error: `hidden` should be true or false, not a string"
        " [bad-type]\n"
        '    hidden = "maybe"\n'
        "             ^\n"
    )


def test_a_city_that_is_broken_elsewhere_can_still_be_edited(run: Command, edited: Path) -> None:
    build_tree(edited, {"agents/other/agent.toml": "hiden = 1\n"})
    assert run("agent", "set", "mayor", "hidden=true", cwd=edited).code == 0


def test_an_agent_that_is_broken_can_be_mended(run: Command, edited: Path) -> None:
    build_tree(edited, {"agents/mayor/agent.toml": 'description = "x"\nhidden = 3\n'})
    ran = run("agent", "set", "mayor", "hidden=true", cwd=edited)
    assert (ran.code, ran.err) == (0, "")
    assert run("check", cwd=edited).code == 0


def test_setting_in_a_file_that_is_not_toml_says_where_and_leaves_it(
    run: Command, edited: Path
) -> None:
    build_tree(edited, {"agents/mayor/agent.toml": "oops\n"})
    ran = run("agent", "set", "mayor", "hidden=true", cwd=edited)
    assert ran.code == 1
    assert ran.err.startswith("agents/mayor/agent.toml:1:5: error: ")
    assert (edited / "agents/mayor/agent.toml").read_text() == "oops\n"


def test_crlf_stays_crlf(run: Command, edited: Path) -> None:
    file = edited / "agents/mayor/agent.toml"
    file.write_bytes(COMMENTED.replace("\n", "\r\n").encode())
    assert run("agent", "set", "mayor", "hidden=true", cwd=edited).code == 0
    data = file.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") == COMMENTED.count("\n") + 1


def test_the_mode_of_an_edited_file_stays(run: Command, edited: Path) -> None:
    file = edited / "agents/mayor/agent.toml"
    file.chmod(0o600)
    assert run("agent", "set", "mayor", "hidden=true", cwd=edited).code == 0
    assert file.stat().st_mode & 0o777 == 0o600


def test_rename_moves_the_folder_and_every_reference(run: Command, edited: Path) -> None:
    build_tree(
        edited,
        {
            "city.toml": CITY
            + '\n[[named_session]]\ntemplate = "mayor"  # mayor\n'
            + '\n[agent_defaults]\nagents_filter.deny = ["mayor"]\n',
            "agents/clerk/prompt.md": "Ask the mayor.\n",
            "agents/clerk/agent.toml": '# the mayor first\ndepends_on = ["mayor"]\n',
        },
    )
    ran = run("agent", "rename", "mayor", "reeve", cwd=edited)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Renamed agents/mayor to agents/reeve\n")
    assert not (edited / "agents/mayor").exists()
    assert (edited / "agents/reeve/agent.toml").read_text() == COMMENTED
    assert (edited / "agents/clerk/agent.toml").read_text() == (
        '# the mayor first\ndepends_on = ["reeve"]\n'
    )
    text = (edited / "city.toml").read_text()
    assert 'template = "reeve"  # mayor\n' in text
    assert 'agents_filter.deny = ["reeve"]\n' in text
    assert (edited / "agents/clerk/prompt.md").read_text() == "Ask the mayor.\n"
    assert run("check", "--strict", cwd=edited).code == 0


def test_rename_as_json_lists_what_changed(run: Command, edited: Path) -> None:
    build_tree(
        edited,
        {
            "agents/clerk/prompt.md": "Clerk.\n",
            "agents/clerk/agent.toml": 'depends_on = ["mayor"]\n',
        },
    )
    answer = run("agent", "rename", "mayor", "reeve", "--json", cwd=edited).json
    assert (answer["from"], answer["to"]) == ("agents/mayor", "agents/reeve")
    assert [row["file"] for row in answer["references"]] == ["agents/clerk/agent.toml"]


def test_rename_moves_unfinished_work_along(run: Command, edited: Path) -> None:
    for text in ("one", "two"):
        assert run("sling", "mayor", text, "--no-start", cwd=edited).code == 0
    run("work", "cancel", "w-1", cwd=edited)
    ran = run("agent", "rename", "mayor", "reeve", "--json", cwd=edited)
    assert ran.json["work"] == ["w-2"]
    agents = [item["agent"] for item in run("work", "list", "--json", cwd=edited).json["work"]]
    assert agents == ["reeve", "mayor"]


def test_remove_names_what_it_removes_and_keeps_a_copy(run: Command, edited: Path) -> None:
    before = contents(edited)
    ran = run("agent", "remove", "mayor", cwd=edited)
    assert (ran.code, "[not-confirmed]" in ran.err) == (1, True)
    assert "  agents/mayor/agent.toml\n" in ran.err
    assert contents(edited) == before
    answer = run("agent", "remove", "mayor", "--yes", "--json", cwd=edited).json
    assert "agents/mayor/agent.toml" in answer["removed"]
    assert (edited / answer["backup"] / "agent.toml").read_text() == COMMENTED
    assert not (edited / "agents/mayor").exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param("mayor", "still-used", id="work"),
        pytest.param("clerk", "still-used", id="reference"),
        pytest.param("crew.pilot", "not-your-agent", id="imported"),
        pytest.param("claude", "not-your-agent", id="built-in"),
        pytest.param("mayro", "unknown-agent", id="unknown"),
    ],
)
def test_an_agent_that_is_used_or_is_not_yours_is_not_removed(
    run: Command, edited: Path, name: str, code: str
) -> None:
    build_tree(
        edited,
        {
            "agents/clerk/prompt.md": "Clerk.\n",
            "agents/deputy/prompt.md": "Deputy.\n",
            "agents/deputy/agent.toml": 'depends_on = ["clerk"]\n',
        },
    )
    run("sling", "mayor", "one", "--no-start", cwd=edited)
    before = contents(edited)
    ran = run("agent", "remove", name, "--yes", "--json", cwd=edited)
    assert (ran.code, ran.json["problems"][0]["code"]) == (1, code)
    assert contents(edited) == before


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param("mayor", "clerk", "duplicate-name", id="taken"),
        pytest.param("mayor", "CLERK", "duplicate-name", id="taken-but-for-case"),
        pytest.param("mayor", "../up", "bad-name", id="out-of-the-city"),
        pytest.param("mayor", "x y", "bad-name", id="blank"),
        pytest.param("crew.pilot", "captain", "not-your-agent", id="imported"),
        pytest.param("claude", "clod", "not-your-agent", id="built-in"),
        pytest.param("mayro", "reeve", "unknown-agent", id="unknown"),
    ],
)
def test_a_rename_that_cannot_be_is_refused_and_nothing_is_written(
    run: Command, edited: Path, old: str, new: str, code: str
) -> None:
    build_tree(edited, {"agents/clerk/prompt.md": "Clerk.\n"})
    before = contents(edited)
    ran = run("agent", "rename", old, new, "--json", cwd=edited)
    assert ran.code == 1
    assert [problem["code"] for problem in ran.json["problems"]] == [code]
    assert contents(edited) == before


def test_a_rename_may_change_the_case_alone(run: Command, edited: Path) -> None:
    assert run("agent", "rename", "mayor", "Mayor", cwd=edited).code == 0
    assert (edited / "agents/Mayor/prompt.md").is_file()


def test_a_rename_that_would_break_the_city_is_refused(run: Command, edited: Path) -> None:
    """A path in city.toml that goes through the folder would lead nowhere afterwards."""
    build_tree(
        edited, {"city.toml": CITY + '\n[agent_defaults]\nnamepool = "agents/mayor/n.txt"\n'}
    )
    build_tree(edited, {"agents/mayor/n.txt": "Ann\n"})
    assert run("check", cwd=edited).code == 0
    run("agent", "rename", "mayor", "reeve", cwd=edited)
    assert run("check", cwd=edited).code == 0
