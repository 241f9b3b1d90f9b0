"""`city agent new NAME --from FILE`: an agent from one file of any tool, or nothing."""

from pathlib import Path

import pytest

from tests.support.in_process import InProcess
from tests.support.snapshots import picture
from tests.support.trees import build_tree

PROFILE = '---\nid: old\n---\n\n## Role\nYou help.\n\n## Config\n```json\n{"model": 1}\n```\n'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", {"city.toml": "implicit_agents = false\n"})


@pytest.mark.parametrize(
    ("file", "text", "found", "setting"),
    [
        (".claude/agents/a.md", "name: x", "claude", 'provider = "claude"'),
        ("a.md", "tools: Read, Grep", "claude", 'allow = ["Read", "Grep"]'),
        ("a.md", "permissionMode: plan", "claude", 'permission_mode = "plan"'),
        ("a.md", "permission:\n  edit: deny", "opencode", 'deny = ["edit"]'),
        (".kilo/agents/a.md", "mode: primary", "kilo", 'provider = "kilo"'),
        ("a.md", "max_turns: 3", "gemini", "steps = 3"),
        (".qwen/agents/a.md", "name: x", "qwen", 'provider = "qwen"'),
        ("a.agent.md", "name: Ship It", "copilot", 'display_name = "Ship It"'),
        ("a.md", "readonly: true", "cursor", 'provider = "cursor"'),
        ("a.md", "model: m", "markdown", 'model = "m"'),
    ],
)
def test_the_format_is_detected(
    run: InProcess, town: Path, file: str, text: str, found: str, setting: str
) -> None:
    build_tree(town.parent / "source", {file: f"---\ndescription: Helps\n{text}\n---\nYou help.\n"})
    ran = run("agent", "new", "helper", "--from", f"../source/{file}", "--json", cwd=town)
    assert (ran.code, ran.json["format"]) == (0, found)
    assert setting in (town / "agents/helper/agent.toml").read_text()
    assert (town / "agents/helper/prompt.md").read_text() == "You help.\n"


def test_a_codex_file_is_read(run: InProcess, town: Path) -> None:
    (town / "a.toml").write_text('description = "d"\ndeveloper_instructions = "You help."\n')
    assert run("agent", "new", "helper", "--from", "a.toml", cwd=town).code == 0
    assert (town / "agents/helper/prompt.md").read_text() == "You help."


def test_a_profile_stays_a_profile_with_the_new_id_and_settings(run: InProcess, town: Path) -> None:
    (town / "profile.md").write_text(PROFILE.replace("1}", '"opus"}'))
    words = ("agent", "new", "helper", "--from", "profile.md", "--provider", "codex")
    assert run(*words, cwd=town).code == 0
    text = (town / "agents/helper/profile.md").read_text()
    assert "id: helper\n" in text
    assert '{"model": "opus", "provider": "codex"}' in text


def test_what_is_not_carried_is_reported_with_its_line(run: InProcess, town: Path) -> None:
    (town / "a.md").write_text("---\ndescription: d\nhooks: {}\nmagic: 1\n---\nYou help.\n")
    ran = run("agent", "new", "helper", "--from", "a.md", cwd=town)
    assert "  a.md:3 hooks: hooks belong in an overlay, `.claude/settings.json`\n" in ran.out
    assert "  a.md:4 magic: it has no counterpart\n" in ran.out
    ran = run("agent", "new", "other", "--from", "a.md", "--json", cwd=town)
    assert {lost["line"]: lost["key"] for lost in ran.json["not_carried"]} == {
        3: "hooks",
        4: "magic",
    }


def test_values_that_an_agent_cannot_have_are_listed(run: InProcess, town: Path) -> None:
    (town / "a.md").write_text("---\nmode: odd\n---\nYou help.\n")
    ran = run("agent", "new", "helper", "--from", "a.md", cwd=town)
    assert (ran.code, "  a.md:2 mode: should be one of" in ran.out) == (0, True)


def test_options_win_over_the_file(run: InProcess, town: Path) -> None:
    (town / "a.md").write_text("---\ndescription: d\nmode: primary\n---\nYou help.\n")
    words = ("--description", "Mine", "--provider", "codex")
    assert run("agent", "new", "helper", "--from", "a.md", *words, cwd=town).code == 0
    text = (town / "agents/helper/agent.toml").read_text()
    assert 'description = "Mine"\nprovider = "codex"' in text


@pytest.mark.parametrize(
    ("file", "data", "error"),
    [
        ("a.md", b"---\nname: x\n", "a.md:1:1: error: the front matter is not closed"),
        ("a.md", b"You help.\n", "a.md has no front matter [not-an-agent-file]"),
        ("a.md", b"\xff\xfe", "a.md:1:1: error: the file is not valid UTF-8 [bad-utf8]"),
        ("profile.md", PROFILE.encode(), "hint: nothing was written; correct profile.md"),
        ("a.txt", b"x", "a.txt is not an agent file [not-an-agent-file]"),
        ("a.toml", b"x = \n", "a.toml:1:"),
        ("profile.md", PROFILE.encode(), "agents/helper/profile.md:10:"),
        ("agents/x/prompt.md", b"x", "agents/x/prompt.md has no front matter"),
    ],
)
def test_a_wrong_file_creates_nothing(
    run: InProcess, town: Path, file: str, data: bytes, error: str
) -> None:
    build_tree(town, {file: data})
    before = picture(town, but=(".gc",))
    ran = run("agent", "new", "helper", "--from", file, cwd=town)
    assert ran.code == 1
    assert error in ran.err
    assert picture(town, but=(".gc",)) == before


def test_a_directory_and_a_missing_file_are_refused(run: InProcess, town: Path) -> None:
    assert "`city import .` imports" in run("agent", "new", "a", "--from", ".", cwd=town).err
    assert "[unknown-source]" in run("agent", "new", "a", "--from", "x.md", cwd=town).err
    ran = run("agent", "new", "a", "--template", "--from", "x.md", cwd=town)
    assert (ran.code, "cannot be combined" in ran.err) == (2, True)
