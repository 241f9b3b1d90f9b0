"""`city provider check`: what a provider's own program says, beside what was planned."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shapes import fits
from tests.support.command import Command, Ran

SKILL = "---\nname: {0}\ndescription: All about {0}.\n---\nDo it.\n"
TOWN = {
    "city.toml": '[workspace]\nprovider = "cline"\n',
    "agents/mayor/prompt.md": "You are the mayor.\n",
    "mcp/tide.toml": ('name = "tide"\ndescription = "Tides."\nurl = "http://127.0.0.1:9/mcp"\n'),
    "skills/knots/SKILL.md": SKILL.format("knots"),
    "overlay/per-provider/cline/.cline/agents/pilot.yaml": "name: pilot\n",
}
SHAPE = {
    "schema": int,
    "provider": str,
    "results": [{"name": str, "status": str, "what": str, "problems": list}],
}
ALL_LOADED = """\
case "$2" in
mcp) echo '[{"name": "tide"}]' ;;
skills) echo '[{"name": "knots"}]' ;;
agents) echo '[{"name": "pilot"}]' ;;
*) echo "cline 3.0.65" ;;
esac
"""

Installed = Callable[..., None]


@pytest.fixture
def installed(programs: Path) -> Installed:
    """`installed("cline", script)` puts a program on PATH."""

    def put(name: str, script: str = "") -> None:
        (programs / name).write_text(f"#!/bin/sh\n{script}")
        (programs / name).chmod(0o755)

    return put


@pytest.fixture
def applied(run: Command, town: Callable[..., Path]) -> Path:
    """A city whose mayor, of provider cline, has a server, a skill and an agent file."""
    root = town(TOWN)
    assert run("apply", "mayor", cwd=root).code == 0
    return root


def compare(run: Command, root: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    ran = run("provider", "check", "cline", "--agent", "mayor", "--json", cwd=root)
    fits(ran.json, SHAPE)
    return ran.code, {row["name"]: row for row in ran.json["results"]}


def told(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(problem["code"], problem["message"]) for problem in row["problems"]]


def test_a_program_that_loads_what_was_planned_has_no_problems(
    run: Command, applied: Path, installed: Installed
) -> None:
    installed("cline", ALL_LOADED)
    assert run("provider", "check", "cline", "--agent", "mayor", cwd=applied) == Ran(
        0,
        "CHECK   STATUS  RESULT\n"
        "mcp     ok      1 of 1 loaded\n"
        "skills  ok      1 of 1 loaded\n"
        "agents  ok      1 of 1 loaded\n",
        "",
    )


def test_what_the_program_does_not_load_is_an_error_each(
    run: Command, applied: Path, installed: Installed
) -> None:
    installed("cline", "echo '[]'")
    code, rows = compare(run, applied)
    assert code == 1
    assert {name: row["status"] for name, row in rows.items()} == dict.fromkeys(
        ("mcp", "skills", "agents"), "error"
    )
    assert told(rows["mcp"]) == [
        ("provider-lacks", "`cline` does not load the server `tide`"),
    ]
    assert rows["skills"]["what"] == "0 of 1 loaded"


def test_a_server_that_is_switched_off_is_an_error_with_the_program_s_words(
    run: Command, applied: Path, installed: Installed
) -> None:
    installed("cline", """echo '[{"name": "tide", "disabled": true}]'""")
    code, rows = compare(run, applied)
    assert code == 1
    assert told(rows["mcp"]) == [
        ("provider-disabled", "`cline` does not load the server `tide`; it reports: disabled"),
    ]


def test_a_server_that_waits_for_approval_comes_with_the_command_that_gives_it(
    run: Command, town: Callable[..., Path], installed: Installed
) -> None:
    by_file = "[providers.qwen.mcp]\nlaunch_always = false\n"
    root = town({**TOWN, "city.toml": f'[workspace]\nprovider = "qwen"\n{by_file}'})
    assert run("apply", "mayor", cwd=root).code == 0
    installed("qwen", "echo '● tide: http://127.0.0.1:9/mcp (http) - Pending approval'")
    ran = run("provider", "check", "qwen", "--agent", "mayor", cwd=root)
    assert ran.code == 1
    assert ran.err.startswith(
        "city: error: `qwen` does not load the server `tide`; it reports: Pending approval"
        " [provider-disabled]\n  hint: in that directory, run `qwen mcp approve tide`\n"
    )


def test_what_the_program_loads_beside_the_plan_is_a_warning(
    run: Command, applied: Path, installed: Installed
) -> None:
    installed("cline", """echo '[{"name":"tide"}, {"name":"knots"}, {"name":"pilot"}]'""")
    code, rows = compare(run, applied)
    assert code == 0
    assert [row["status"] for row in rows.values()] == ["warning"] * 3
    assert told(rows["skills"]) == [
        ("provider-adds", "`cline` also loads the skill `pilot`, which is not in the plan"),
        ("provider-adds", "`cline` also loads the skill `tide`, which is not in the plan"),
    ]


def test_a_program_that_fails_is_an_error_and_no_empty_list(
    run: Command, applied: Path, installed: Installed
) -> None:
    installed("cline", "echo no key >&2; exit 4")
    code, rows = compare(run, applied)
    assert code == 1
    assert told(rows["mcp"]) == [
        ("provider-silent", "mcp: `cline config mcp --json` failed (4): no key"),
    ]


def test_what_a_program_shows_in_a_session_only_is_a_warning_if_there_is_something_to_show(
    run: Command, town: Callable[..., Path], installed: Installed
) -> None:
    root = town({**TOWN, "city.toml": '[workspace]\nprovider = "droid"\n'})
    assert run("apply", "mayor", cwd=root).code == 0
    installed("droid", "echo '  tide  http  connected  [project]'")
    ran = run("provider", "check", "droid", "--agent", "mayor", "--json", cwd=root)
    assert ran.code == 0
    rows = {row["name"]: row for row in ran.json["results"]}
    assert (list(rows), rows["mcp"]["status"]) == (["mcp", "skills"], "ok")
    assert told(rows["skills"]) == [
        ("provider-silent", "skills: `droid` lists them only in a session"),
    ]


def test_what_cannot_be_listed_does_not_matter_where_nothing_is_planned(
    run: Command, town: Callable[..., Path], installed: Installed
) -> None:
    root = town(
        {
            "city.toml": '[workspace]\nprovider = "droid"\n',
            "agents/mayor/prompt.md": "You are the mayor.\n",
        }
    )
    assert run("apply", "mayor", cwd=root).code == 0
    installed("droid", "echo No MCP servers configured.")
    assert run("provider", "check", "droid", "--agent", "mayor", cwd=root) == Ran(
        0,
        "CHECK   STATUS  RESULT\nmcp     ok      0 of 0 loaded\nskills  ok      nothing planned\n",
        "",
    )


def test_servers_that_each_launch_is_handed_cannot_be_listed(
    run: Command, town: Callable[..., Path], installed: Installed
) -> None:
    shared = 'work_dir = "shared"\n'
    other = 'name = "moon"\ndescription = "Moon."\nurl = "http://127.0.0.1:9/mcp"\n'
    root = town(
        {
            "city.toml": '[workspace]\nprovider = "claude"\n',
            "agents/mayor/prompt.md": "You are the mayor.\n",
            "agents/mayor/agent.toml": shared,
            "agents/clerk/prompt.md": "You are the clerk.\n",
            "agents/clerk/agent.toml": shared,
            "agents/mayor/mcp/tide.toml": TOWN["mcp/tide.toml"],
            "agents/clerk/mcp/moon.toml": other,
        }
    )
    assert run("apply", cwd=root).code == 0
    installed("claude", "echo nothing")
    ran = run("provider", "check", "claude", "--agent", "mayor", "--json", cwd=root)
    assert ran.code == 0
    assert told(ran.json["results"][0]) == [
        ("provider-silent", "`claude` gets the servers of `mayor` at each launch"),
    ]


def test_the_program_gets_the_agent_s_environment(
    run: Command, town: Callable[..., Path], installed: Installed, tmp_path: Path
) -> None:
    root = town({**TOWN, "agents/mayor/agent.toml": 'env = { TIDE = "${SEA}" }\n'})
    assert run("apply", "mayor", cwd=root).code == 0
    installed("cline", f'echo "$TIDE" >"{tmp_path}/seen"; echo "[]"')
    run("provider", "check", "cline", "--agent", "mayor", cwd=root, env={"SEA": "high"})
    assert (tmp_path / "seen").read_text() == "high\n"


def test_a_directory_that_was_never_made_is_said_to_be_missing(
    run: Command, town: Callable[..., Path], installed: Installed
) -> None:
    installed("cline", ALL_LOADED)
    assert run("provider", "check", "cline", "--agent", "mayor", cwd=town(TOWN)) == Ran(
        1,
        "",
        "city: error: .gc/work/mayor does not exist yet [not-applied]\n"
        "  hint: run `city apply mayor`\n",
    )


def test_an_agent_of_another_provider_is_not_compared(
    run: Command, applied: Path, installed: Installed
) -> None:
    installed("codex")
    ran = run("provider", "check", "codex", "--agent", "mayor", cwd=applied)
    assert ran == Ran(
        1,
        "",
        "city: error: agent `mayor` has provider `cline`, not `codex` [not-its-provider]\n"
        "  hint: `city provider check cline --agent mayor`\n",
    )


@pytest.mark.parametrize("agent", [(), ("--agent", "mayor")])
def test_a_program_that_is_not_installed_is_an_error_that_names_it(
    run: Command, applied: Path, agent: tuple[str, ...]
) -> None:
    assert run("provider", "check", "cline", *agent, cwd=applied) == Ran(
        1,
        "CHECK    STATUS  RESULT\nprogram  error   not found\n",
        "city: error: `cline` is not on PATH [not-installed]\n"
        "  hint: install it, or set `command` under [providers.cline]\n",
    )


def test_without_an_agent_the_program_its_version_and_its_lists_are_shown(
    run: Command, town: Callable[..., Path], installed: Installed, programs: Path
) -> None:
    installed("droid", "echo 0.215.0")
    assert run("provider", "check", "droid", cwd=town(TOWN)) == Ran(
        0,
        "CHECK    STATUS  RESULT\n"
        f"program  ok      {programs}/droid\n"
        "version  ok      0.215.0\n"
        "mcp      ok      compared with --agent, using `droid mcp list`\n"
        "skills   ok      only visible in a session; cannot be compared\n"
        "agents   ok      only visible in a session; cannot be compared\n",
        "",
    )


def test_another_version_than_the_facts_are_of_is_named(
    run: Command, town: Callable[..., Path], installed: Installed
) -> None:
    installed("cline", "echo cline 4.0.0")
    ran = run("provider", "check", "cline", "--json", cwd=town(TOWN))
    rows = {row["name"]: row["what"] for row in ran.json["results"]}
    assert (ran.code, rows["version"]) == (0, "4.0.0; its definition was tested with 3.0.65")


def test_a_program_that_tells_no_version_is_a_warning(
    run: Command, town: Callable[..., Path], installed: Installed
) -> None:
    installed("cline", "exit 1")
    ran = run("provider", "check", "cline", "--json", cwd=town(TOWN))
    rows = {row["name"]: row for row in ran.json["results"]}
    assert ran.code == 0
    assert told(rows["version"]) == [("provider-silent", "`cline --version` failed (1)")]


def test_a_provider_of_the_city_s_own_is_not_run_to_find_out(
    run: Command, town: Callable[..., Path], installed: Installed, tmp_path: Path
) -> None:
    installed("abacus", f'echo ran >"{tmp_path}/ran"')
    root = town({"city.toml": '[providers.abacus]\ncommand = "abacus"\n'})
    ran = run("provider", "check", "abacus", "--json", cwd=root)
    assert [row["name"] for row in ran.json["results"]] == ["program", "version"]
    assert not (tmp_path / "ran").exists()


def test_a_provider_without_a_program_is_a_warning(run: Command, town: Callable[..., Path]) -> None:
    ran = run("provider", "check", "vscode", cwd=town(TOWN))
    assert (ran.code, ran.err) == (
        0,
        "city: warning: `vscode` has no program; city writes files for it but cannot start it"
        " [not-installed]\n",
    )


def test_an_unknown_provider_or_agent_exits_1_with_suggestions(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(TOWN)
    assert (
        "[unknown-provider]\n  hint: did you mean `codex`?"
        in run("provider", "check", "codx", cwd=root).err
    )
    ran = run("provider", "check", "cline", "--agent", "mayr", cwd=root)
    assert (ran.code, "did you mean `mayor`?" in ran.err) == (1, True)
