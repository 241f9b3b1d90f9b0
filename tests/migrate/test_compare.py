"""The comparison reports every change of agents, rigs, providers and the city."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gascity.pipeline import open_city
from gascity_migrate.compare import (
    ComparedCity,
    ExpectedChanges,
    differences,
    read_configuration,
    shared_overlays,
)
from gascity_migrate.files import MOVE, WRITE, Change
from tests.support.trees import build_tree

TODAY: dict[str, str | bytes] = {
    "city.toml": """\
implicit_agents = false
[workspace]
name = "town"
provider = "claude"
env = { TOWN = "1" }
[agent_defaults]
append_fragments = ["tone"]
[providers.mine]
base = "claude"
args = ["--x"]
[[rigs]]
name = "dock"
prefix = "dk"
[[named_session]]
template = "clerk"
mode = "always"
[imports.harbour]
source = "./packs/harbour"
[[patches.agent]]
name = "harbour.pilot"
nudge = "Steer."
""",
    "agents/mayor/prompt.template.md": "You are {{ .AgentName }}.\n",
    "agents/mayor/agent.toml": 'max_active_sessions = 2\n[env]\nTOKEN = "abc"\nPLACE = "here"\n',
    "agents/mayor/overlay/run.sh": "#!/bin/sh\n",
    "agents/mayor/overlay/per-provider/claude/x.md": "x\n",
    "agents/mayor/namepool.txt": "ash\n",
    "agents/mayor/mcp/files.toml": 'name = "files"\ndescription = "F."\ncommand = "npx"\n',
    "agents/clerk/prompt.md": "You write.\n",
    "agents/clerk/agent.toml": 'depends_on = ["mayor"]\n',
    "skills/knots/SKILL.md": "---\nname: knots\ndescription: Knots.\n---\nTie.\n",
    "skills/knots/bin/tie.sh": "#!/bin/sh\n",
    "template-fragments/tone.template.md": '{{ define "tone" }}Kind.{{ end }}\n',
    "packs/harbour/pack.toml": '[pack]\nname = "harbour"\n',
    "packs/harbour/agents/pilot/prompt.md": "You steer.\n",
    "hud/line.md": "Up.\n",
}


def seen(root: Path) -> ComparedCity:
    return read_configuration(open_city(str(root), os.environ))


def descriptions(
    tmp_path: Path, changes: Mapping[str, str | bytes | None], plan: ExpectedChanges | None = None
) -> list[str]:
    """The differences that a change of some files makes; None is a file that is not there."""
    build_tree(tmp_path / "before", TODAY)
    files = {path: text for path, text in {**TODAY, **changes}.items() if text is not None}
    build_tree(tmp_path / "after", files)
    before, after = seen(tmp_path / "before"), seen(tmp_path / "after")
    assert before.errors == ()
    return [problem.message for problem in differences(before, after, plan or ExpectedChanges())]


def town(*edits: tuple[str, str]) -> dict[str, str | bytes | None]:
    """city.toml with some words replaced."""
    text = str(TODAY["city.toml"])
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return {"city.toml": text}


def test_cities_with_the_same_files_are_equal(tmp_path: Path) -> None:
    build_tree(tmp_path / "one", TODAY)
    build_tree(tmp_path / "two", TODAY)
    assert differences(seen(tmp_path / "one"), seen(tmp_path / "two"), ExpectedChanges()) == []


def test_an_agent_that_breaks_differs_even_if_its_error_is_known(tmp_path: Path) -> None:
    valid = seen(build_tree(tmp_path / "town", TODAY))
    broken = valid._replace(broken=frozenset({"clerk"}))
    found = differences(valid, broken, ExpectedChanges())
    assert [problem.message for problem in found] == ["agent `clerk` would be broken"]
    assert differences(broken, broken, ExpectedChanges()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"agents/clerk/prompt.md": "You.\n"},
            "agent `clerk`: `prompt` would have different content",
        ),
        (
            {"agents/clerk/agent.toml": ""},
            "agent `clerk`: `depends_on` would change from ('mayor',) to ()",
        ),
        (
            {"agents/clerk/agent.toml": 'depends_on = ["mayor"]\nprovider = "codex"\n'},
            "agent `clerk`: `resolved provider` would change from 'claude' to 'codex'",
        ),
        (
            {"agents/mayor/agent.toml": 'max_active_sessions = 2\n[env]\nTOKEN = "z"\n'},
            "agent `mayor`: `env` would differ in `PLACE`, `TOKEN`",
        ),
        (
            {"agents/mayor/namepool.txt": None},
            "agent `mayor`: `namepool` would be a different file or none",
        ),
        (
            {"agents/mayor/overlay/run.sh": "#!/bin/bash\n"},
            "agent `mayor`: `overlay` would differ in `run.sh`",
        ),
        (
            {
                "agents/mayor/overlay/per-provider/claude/x.md": None,
                "agents/mayor/overlay/x.md": "x\n",
            },
            "agent `mayor`: `overlay` would differ in `x.md`, `x.md claude`",
        ),
        (
            {"skills/knots/bin/tie.sh": None},
            "agent `clerk`: `skills` would differ in `knots/bin/tie.sh`",
        ),
        (
            {"agents/mayor/mcp/files.toml": None},
            "agent `mayor`: `mcp` would differ in `files.toml`",
        ),
        (
            {"template-fragments/tone.template.md": '{{ define "tone" }}Hard.{{ end }}\n'},
            "agent `clerk`: `template-fragments` would differ in `tone`",
        ),
        ({"hud/line.md": None}, "agent `clerk`: `hud` would differ in `line.md`"),
        (
            {"agents/clerk/prompt.md": None},
            "agent `clerk` has no prompt, description or start_command",
        ),
        (
            {"agents/extra/prompt.md": "Hi.\n"},
            "agent `extra` would be new",
        ),
        (
            {"packs/harbour/agents/pilot/prompt.md": "Steer!\n"},
            "agent `harbour.pilot`: `prompt` would have different content",
        ),
        (
            town(('nudge = "Steer."', 'nudge = "Go."')),
            "agent `harbour.pilot`: `nudge` would change from 'Steer.' to 'Go.'",
        ),
        (
            town(('append_fragments = ["tone"]', "append_fragments = []")),
            "agent `mayor`: `append_fragments` would change from ('tone',) to ()",
        ),
        (
            town(('prefix = "dk"', 'prefix = "do"')),
            "rig `dock`: `prefix` would change from 'dk' to",
        ),
        (
            town(('args = ["--x"]', "args = []")),
            "provider `mine`: `args` would change from ('--x',) to ()",
        ),
        (
            town(('[[rigs]]\nname = "dock"\nprefix = "dk"\n', "")),
            "rig `dock` would be missing",
        ),
        (town(("[providers.mine]", "[providers.yours]")), "provider `mine` would be missing"),
        (
            town(('mode = "always"', 'mode = "on_demand"')),
            "the city: `named sessions` would change from",
        ),
        (town(('TOWN = "1"', 'TOWN = "2"')), "the city: `[workspace] env` would differ in `TOWN`"),
        (town(("[imports.harbour]", "[imports.port]")), "the city: `imports` would change from"),
    ],
)
def test_a_difference_is_reported(
    tmp_path: Path, changes: dict[str, str | bytes | None], words: str
) -> None:
    found = descriptions(tmp_path, changes)
    assert any(words in one for one in found), found
    assert not any("abc" in one for one in found)


def test_a_mode_is_a_difference(tmp_path: Path) -> None:
    build_tree(tmp_path / "town", TODAY)
    before = seen(tmp_path / "town")
    (tmp_path / "town/agents/mayor/overlay/run.sh").chmod(0o755)
    (problem,) = differences(before, seen(tmp_path / "town"), ExpectedChanges())
    assert problem.code == "migrate-differs"
    assert problem.message == "agent `mayor`: `overlay` would differ in `run.sh`"


def test_a_template_that_is_no_longer_expanded_is_a_difference(tmp_path: Path) -> None:
    text = TODAY["agents/mayor/prompt.template.md"]
    found = descriptions(
        tmp_path, {"agents/mayor/prompt.template.md": None, "agents/mayor/prompt.md": text}
    )
    assert "agent `mayor`: `prompt is expanded` would change from True to False" in found


def test_a_prompt_with_template_syntax_may_become_a_template(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "town", {**TODAY, "agents/clerk/prompt.md": "I am {{ . }}.\n"})
    before = seen(root)
    (root / "agents/clerk/prompt.md").rename(root / "agents/clerk/prompt.template.md")
    assert differences(before, seen(root), ExpectedChanges()) == []


def test_only_names_that_the_plan_lists_may_change(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "town", TODAY)
    before = seen(root)
    (root / "agents/mayor").rename(root / "agents/lord")
    (root / "agents/clerk/agent.toml").write_text('depends_on = ["lord"]\n')
    after = seen(root)
    assert differences(before, after, ExpectedChanges(renamed={"mayor": "lord"})) == []
    assert [one.message for one in differences(before, after, ExpectedChanges())] == [
        "agent `clerk`: `depends_on` would change from ('mayor',) to ('lord',)",
        "agent `lord` would be new",
        "agent `mayor` would be missing",
    ]


def test_moved_files_are_not_a_difference(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "town", TODAY)
    before = seen(root)
    build_tree(
        root,
        {
            "agents/mayor/agent.toml": 'prompt = "texts/mayor.template.md"\n'
            'overlay_dir = "shared/desk"\nnamepool = "names"\n'
            + str(TODAY["agents/mayor/agent.toml"]),
            "shared/": "",
        },
    )
    home = root / "agents/mayor"
    (root / "texts").mkdir()
    (home / "prompt.template.md").rename(root / "texts/mayor.template.md")
    (home / "overlay").rename(root / "shared/desk")
    (home / "namepool.txt").rename(root / "names")
    assert [one.message for one in differences(before, seen(root), ExpectedChanges())] == []


def test_existing_errors_are_not_differences(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "town", {**TODAY, "agents/clerk/agent.toml": "typo = 1\n"})
    before = seen(root)
    assert len(before.errors) == 1
    (root / "agents/clerk/agent.toml").write_text("\n\ntypo = 1\n")
    assert differences(before, seen(root), ExpectedChanges()) == []
    (root / "agents/mayor/agent.toml").write_text("typo = 1\nmax_active_sessions = 2\n")
    assert "unknown-key" in [one.code for one in differences(before, seen(root), ExpectedChanges())]


def test_symlinks_are_followed_and_loops_end(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "town", TODAY)
    (root / "skills/knots/again").symlink_to(".")
    (root / "skills/knots/gone").symlink_to("nowhere")
    before = seen(root)
    assert before.agents["clerk"]["skills"]
    (root / "skills/knots/gone").unlink()
    (problem, *_) = differences(before, seen(root), ExpectedChanges())
    assert problem.message == "agent `clerk`: `skills` would differ in `knots/gone`"


class TestExpectedChanges:
    def test_shared_fragments_may_precede_an_agents_own(self) -> None:
        meant = ExpectedChanges(shared=("manners",))
        was = ("books", "manners", "hours")
        assert meant.allows("append_fragments", was, ("manners", "books", "hours"))
        assert not meant.allows("append_fragments", was, ("manners", "hours", "books"))
        assert not meant.allows("append_fragments", was, ("manners", "books"))
        assert not ExpectedChanges().allows("append_fragments", was, ("manners", "books", "hours"))

    def test_only_the_sessions_that_the_plan_lists_may_be_missing(self) -> None:
        one, two = {"template": "a"}, {"template": "b"}
        assert ExpectedChanges(sessions=1).allows("named sessions", [one, two], [two])
        assert not ExpectedChanges(sessions=1).allows("named sessions", [one, two], [])
        assert not ExpectedChanges().allows("named sessions", [one, two], [two])
        assert not ExpectedChanges(sessions=1).allows("named sessions", [one], [two])
        assert ExpectedChanges({"a": "z"}).allows(
            "named sessions", [one, two], [two, {"template": "z"}]
        )

    def test_a_directory_may_become_the_overlay_of_its_pack(self) -> None:
        changes = [
            Change(MOVE, "overlay/.editorconfig", "overlays/.editorconfig"),
            Change(MOVE, "packs/x/overlay", "packs/x/overlays"),
            Change(MOVE, "agents/mayor/overlay", "overlays/desk"),
            Change(WRITE, "overlay/new", content=b"x"),
        ]
        assert shared_overlays(changes) == {".": "overlays", "packs/x": "packs/x/overlays"}


def test_two_files_may_each_define_an_agent_of_the_same_name(tmp_path: Path) -> None:
    root = build_tree(
        tmp_path / "town",
        {
            "city.toml": 'include = ["more.toml"]\nimplicit_agents = false\n'
            '[[rigs]]\nname = "dock"\n[[agent]]\nname = "bob"\ndescription = "One."\n',
            "more.toml": '[[agent]]\nname = "bob"\ndir = "dock"\ndescription = "Another."\n',
        },
    )
    city = open_city(str(root), os.environ, dialects=True)
    descriptions = {str(agent.name): agent.settings.description for agent in city.agents}
    assert descriptions == {"bob": "One.", "dock/dock--bob": "Another."}
