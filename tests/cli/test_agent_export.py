"""`city agent export`: files of other tools, owned by a ledger of their own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shapes import AGENT_EXPORT, fits
from tests.support.in_process import InProcess
from tests.support.snapshots import picture
from tests.support.trees import build_tree

TOWN = {
    "city.toml": 'implicit_agents = false\n[workspace]\nprovider = "claude"\n',
    "agents/do/prompt.md": "Run bn orient.\n",
    "agents/do/agent.toml": 'description = "Does: tasks"\n[tools]\nallow = ["read", "edit"]\n',
    "agents/free/prompt.md": "You are free.\n",
}
DO = ".github/agents/do.agent.md"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "town", TOWN)


@pytest.fixture
def export(run: InProcess, town: Path) -> Callable[..., dict[str, str]]:
    """Export as Copilot's files; return the operation of each path."""

    def call(*arguments: str, code: int = 0) -> dict[str, str]:
        ran = run("agent", "export", "--format", "copilot", *arguments, "--json", cwd=town)
        assert ran.code == code, ran
        fits(ran.json, AGENT_EXPORT)
        return {row["path"]: row["op"] for row in ran.json["files"]}

    return call


def test_the_file_has_the_keys_in_order_and_the_prompt_below(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    assert export() == {DO: "write", ".github/agents/free.agent.md": "write"}
    assert (town / DO).read_text() == (
        "---\nname: Do\ndescription: 'Does: tasks'\ntools: ['read', 'edit']\n---\nRun bn orient.\n"
    )


def test_what_is_lost_is_listed_once_for_each_reason(run: InProcess, town: Path) -> None:
    build_tree(town, {"agents/do/agent.toml": '[tools]\nask = ["fetch", "shell"]\n'})
    ran = run("agent", "export", "do", "--format", "copilot", cwd=town)
    lines = [line for line in ran.out.splitlines() if line.startswith("lost:")]
    assert any(line.startswith("lost: do: tools.ask fetch, shell (") for line in lines)


def test_a_second_export_changes_nothing(export: Callable[..., dict[str, str]]) -> None:
    export()
    assert set(export().values()) == {"same"}
    assert set(export("--check").values()) == {"same"}


def test_check_writes_nothing_and_fails_on_a_difference(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    before = picture(town)
    assert export("--check", code=1)[DO] == "write"
    assert picture(town) == before


def test_the_file_of_an_agent_that_is_gone_is_removed(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    export()
    for name in ("agent.toml", "prompt.md"):
        (town / "agents/do" / name).unlink()
    (town / "agents/do").rmdir()
    assert export("--check", code=1)[DO] == "remove"
    assert export()[DO] == "remove"
    assert not (town / DO).exists()


def test_the_last_agent_that_is_gone_takes_the_directory_with_it(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    export()
    for name in ("do", "free"):
        build_tree(town, {f"agents/{name}/agent.toml": "hidden = true\n"})
    assert set(export().values()) == {"remove"}
    assert not (town / ".github").exists()


def test_named_agents_leave_the_files_of_others_alone(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    export()
    build_tree(town, {"agents/free/agent.toml": "hidden = true\n"})
    assert export("do") == {DO: "same"}
    assert (town / ".github/agents/free.agent.md").exists()


def test_an_unmanaged_file_is_kept_and_named(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    build_tree(town, {DO: "mine\n"})
    assert export()[DO] == "keep"
    assert (town / DO).read_text() == "mine\n"
    assert export("--check", code=1)[DO] == "keep"
    assert export("--force")[DO] == "write"


def test_an_edited_file_is_kept_until_force_replaces_it(
    run: InProcess, export: Callable[..., dict[str, str]], town: Path
) -> None:
    export()
    build_tree(town, {DO: "edited\n"})
    ran = run("agent", "export", "--format", "copilot", cwd=town)
    assert (ran.code, "keep     " + DO + " (modified locally)" in ran.out) == (0, True)
    assert "`--force`" in ran.err
    assert export("--force")[DO] == "write"
    assert (town / DO).read_text().startswith("---\nname: Do\n")


def test_a_file_that_force_replaced_comes_back_when_its_agent_is_gone(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    build_tree(town, {DO: "mine\n"})
    export("--force")
    build_tree(town, {"agents/do/agent.toml": "hidden = true\n"})
    assert export()[DO] == "remove"
    assert (town / DO).read_text() == "mine\n"


def test_apply_and_its_undo_leave_exported_files_alone(
    run: InProcess, export: Callable[..., dict[str, str]], town: Path
) -> None:
    build_tree(town, {"overlay/NOTES.md": "Notes.\n"})
    export()
    for command in ("apply", "undo"):
        assert run(command, cwd=town).code == 0
        assert set(export("--check").values()) == {"same"}


def test_hidden_container_and_script_agents_are_exported_only_on_request(
    run: InProcess, export: Callable[..., dict[str, str]], town: Path
) -> None:
    build_tree(
        town,
        {
            "agents/do/agent.toml": "hidden = true\n",
            "agents/free/agent.toml": 'execution = "container"\n',
            "agents/lint/agent.toml": 'provider = "shell"\nprompt_mode = "none"\n',
            "agents/lint/prompt.md": "make lint\n",
        },
    )
    with_all = {DO, ".github/agents/free.agent.md"}
    assert set(export("--all")) == with_all
    assert set(export("do")) == {DO}
    ran = run("agent", "export", "lint", "--format", "copilot", cwd=town)
    assert (ran.code, "`lint` runs scripts" in ran.err) == (1, True)


def test_without_any_agent_there_is_nothing_to_export(run: InProcess, town: Path) -> None:
    for name in ("do", "free"):
        build_tree(town, {f"agents/{name}/agent.toml": "hidden = true\n"})
    ran = run("agent", "export", "--format", "copilot", "--json", cwd=town)
    assert (ran.code, [p["code"] for p in ran.json["problems"]]) == (1, ["nothing-to-export"])


def test_a_prefix_is_part_of_the_file_name_and_the_title(
    export: Callable[..., dict[str, str]], town: Path
) -> None:
    export()
    ops = export("--prefix", "binnacle")
    assert ops[".github/agents/binnacle-do.agent.md"] == "write"
    assert ops[DO] == "remove"  # one set of files in one directory
    text = (town / ".github/agents/binnacle-do.agent.md").read_text()
    assert text.startswith("---\nname: Binnacle Do\n")


def test_a_prefix_that_no_file_name_can_have_is_a_usage_error(run: InProcess, town: Path) -> None:
    ran = run("agent", "export", "--format", "copilot", "--prefix", "../up", cwd=town)
    assert ran.code == 2


def test_an_unknown_format_is_an_error_that_lists_them(run: InProcess, town: Path) -> None:
    ran = run("agent", "export", "--format", "copliot", "--json", cwd=town)
    [problem] = ran.json["problems"]
    assert (ran.code, problem["code"]) == (1, "unknown-format")
    for name in ("`copilot`", "assistant", "binnacle", "claude", "codex", "opencode", "profile"):
        assert name in problem["hint"]


def test_unknown_agents_are_reported_all_at_once(run: InProcess, town: Path) -> None:
    ran = run("agent", "export", "du", "fre", "--format", "copilot", "--json", cwd=town)
    assert ran.code == 1
    assert [p["hint"] for p in ran.json["problems"]] == [
        "did you mean `do`?",
        "did you mean `free`?",
    ]


def test_a_broken_agent_is_skipped_and_its_file_stays(
    run: InProcess, export: Callable[..., dict[str, str]], town: Path
) -> None:
    export()
    before = (town / DO).read_text()
    build_tree(town, {"agents/do/agent.toml": "hiden = true\n"})
    build_tree(town, {"agents/free/prompt.md": "New.\n"})
    ran = run("agent", "export", "--format", "copilot", "--json", cwd=town)
    assert ran.code == 1
    assert {p["code"] for p in ran.json["problems"]} == {"broken-agent", "unknown-key"}
    assert {row["path"]: row["op"] for row in ran.json["files"]} == {
        ".github/agents/free.agent.md": "write"
    }
    assert (town / DO).read_text() == before


def test_two_agents_with_one_file_name_are_refused(run: InProcess, town: Path) -> None:
    build_tree(
        town,
        {
            "city.toml": TOWN["city.toml"] + '[imports.crew]\nsource = "packs/crew"\n',
            "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
            "packs/crew/agents/pilot/prompt.md": "Fly.\n",
            "agents/crew--pilot/prompt.md": "Sail.\n",
        },
    )
    ran = run("agent", "export", "--format", "copilot", "--json", cwd=town)
    [problem] = ran.json["problems"]
    assert (ran.code, problem["code"]) == (1, "name-clash")
    assert "`crew--pilot`" in problem["message"]
    assert "`crew.pilot`" in problem["message"]
    assert not (town / ".github").exists()


def test_a_value_that_only_a_session_has_is_a_warning_at_its_line(
    run: InProcess, town: Path
) -> None:
    template = "You.\nWork in {{ .WorkDir }}.\n"
    build_tree(town, {"agents/do/prompt.template.md": template})
    (town / "agents/do/prompt.md").unlink()
    ran = run("agent", "export", "do", "--format", "copilot", "--json", cwd=town)
    [problem] = ran.json["problems"]
    assert (ran.code, problem["code"], problem["line"]) == (0, "session-value-exported", 2)
    assert "`.WorkDir`" in problem["message"]


def test_an_agent_is_exported_for_the_rig_around_the_current_directory(
    run: InProcess, town: Path, tmp_path: Path
) -> None:
    for name in ("api", "web"):
        build_tree(tmp_path / name, {"README.md": "x\n"})
        toml = f'rigs = ["{name}"]\n'
        build_tree(town, {f"agents/on-{name}/agent.toml": toml, f"agents/on-{name}/prompt.md": "x"})
    rigs = "".join(f'[[rigs]]\nname = "{n}"\npath = "{tmp_path / n}"\n' for n in ("api", "web"))
    build_tree(town, {"city.toml": TOWN["city.toml"] + rigs})
    arguments = ("--city", str(town), "agent", "export", "--format", "claude")
    ran = run(*arguments, "--json", cwd=tmp_path / "api")
    names = {os.path.basename(row["path"]) for row in ran.json["files"]}
    assert names == {"do.md", "free.md", "api--on-api.md"}
    assert ran.json["directory"] == str(tmp_path / "api/.claude/agents")
    ran = run(*arguments, "--rig", "web", "--json", cwd=town)
    assert (tmp_path / "web/.claude/agents/web--on-web.md").exists()
    assert run(*arguments, "--rig", "wob", cwd=town).code == 1


def test_an_agent_that_is_named_in_a_rig_has_the_file_it_has_without_a_name(
    run: InProcess, town: Path
) -> None:
    rig = '[[rigs]]\nname = "here"\npath = "."\n'
    build_tree(town, {"city.toml": TOWN["city.toml"] + rig})
    words = ("agent", "export", "--format", "copilot", "--json")
    assert run(*words, cwd=town).code == 0
    for name in ("do", "here/do"):
        [row] = run(*words, name, cwd=town).json["files"]
        assert (row["agent"], row["path"], row["op"]) == ("do", DO, "same")


def test_the_users_own_agents_are_in_the_home_directory(
    run: InProcess, town: Path, private_home: Path
) -> None:
    ran = run("agent", "export", "do", "--format", "copilot", "--to", "user", cwd=town)
    assert ran.code == 0
    assert (private_home / ".copilot/agents/do.agent.md").exists()


@pytest.mark.parametrize(
    ("format_name", "paths"),
    [
        ("profile", {"do/profile.md", "free/profile.md"}),
        ("binnacle", {"config.kdl", "do/prompt.md", "free/prompt.md"}),
        ("assistant", {"agents.json"}),
    ],
)
def test_formats_of_other_programs_go_to_a_directory_only(
    run: InProcess, town: Path, format_name: str, paths: set[str]
) -> None:
    assert run("agent", "export", "--format", format_name, cwd=town).code == 2
    ran = run("agent", "export", "--format", format_name, "--to", "out", "--json", cwd=town)
    assert (ran.code, ran.json["directory"]) == (0, "out")
    assert {row["path"] for row in ran.json["files"]} == {f"out/{path}" for path in paths}
    assert {row["agent"] for row in ran.json["files"]} == {"do", "free"}


def test_a_symlink_in_the_way_is_not_followed(
    export: Callable[..., dict[str, str]], town: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (town / ".github").symlink_to(tmp_path / "elsewhere")
    assert export(code=1)[DO] == "keep"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_target_that_is_a_file_is_an_error(run: InProcess, town: Path) -> None:
    build_tree(town, {"out": "a file\n"})
    ran = run("agent", "export", "--format", "claude", "--to", "out", "--json", cwd=town)
    assert ran.code == 1
    assert (town / "out").read_text() == "a file\n"


class TestUndo:
    """`city undo` takes back an export, as it does an apply."""

    def test_the_last_export_is_removed_and_the_one_before_restored(
        self, run: InProcess, town: Path, export: Callable[..., dict[str, str]]
    ) -> None:
        before = picture(town, but=(".gc",))
        export()
        first = (town / DO).read_bytes()
        prompt = town / "agents/do/prompt.md"
        prompt.write_text("Run it again.\n")
        export()
        assert (town / DO).read_bytes() != first
        row = run("undo", "--json", cwd=town).json["agents"][0]
        assert [step["op"] for step in row["done"]] == ["write"]
        assert (town / DO).read_bytes() == first
        ran = run("undo", cwd=town)
        assert f"  remove   {DO} (created by export)\n" in ran.out
        prompt.write_text(TOWN["agents/do/prompt.md"])
        assert picture(town, but=(".gc",)) == before
        assert run("undo", cwd=town).out == "Nothing to undo.\n"
        assert export("--check", code=1)[DO] == "write"

    def test_a_file_modified_since_is_kept(
        self, run: InProcess, town: Path, export: Callable[..., dict[str, str]]
    ) -> None:
        export()
        (town / DO).write_text("Mine.\n")
        assert f"kept: {DO}: modified since" in run("undo", cwd=town).err
        assert (town / DO).read_text() == "Mine.\n"
        assert not (town / ".github/agents/free.agent.md").exists()

    def test_the_latest_of_apply_and_export_is_undone_first(
        self, run: InProcess, town: Path, export: Callable[..., dict[str, str]]
    ) -> None:
        build_tree(town, {"overlay/NOTES.md": "Notes.\n"})
        export()
        assert run("apply", cwd=town).code == 0
        assert "created by apply" in run("undo", cwd=town).out
        assert (town / DO).exists()
        assert "created by export" in run("undo", cwd=town).out
        assert not (town / DO).exists()

    def test_a_whole_city_is_taken_back(self, run: InProcess, town: Path) -> None:
        assert run("export", "--to", "../plain", "--provider", "claude", cwd=town).code == 0
        plain = town.parent / "plain"
        assert picture(plain, but=())
        assert run("undo", cwd=town).code == 0
        assert picture(plain, but=()) == {}
