"""`city check`: everything at once, in a form that people, editors and programs read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shapes import CHECK, CHECK_VERBOSE, fits
from tests.support.command import Command, Ran
from tests.support.git import commit, git

FAULTS = {
    "city.toml": """\
[workspace]
provider = "claud"
max_active_sessions = "8"

[agent_default]
env = {}

[[patches.agent]]
name = "nobody"
""",
    "agents/mayor/prompt.md": "You are the mayor.\n",
    "agents/mayor/agent.toml": "max_active_sesions = 3\nhidden = 1\n",
    "agents/empty/agent.toml": "",
    "agents/broken/prompt.md": "You are broken.\n",
    "agents/broken/agent.toml": 'description = "unclosed\n',
}


def test_a_missing_pack_comes_first_and_what_follows_from_it_is_not_reported(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            "city.toml": """\
[imports.crew]
source = "packs/crew"

[[patches.agent]]
name = "crew.pilot"
model = "opus"

[[named_session]]
template = "crew.pilot"
""",
            "agents/mayor/prompt.md": "x\n",
            "agents/mayor/agent.toml": 'depends_on = ["crew.cook"]\nhiden = true\n',
        }
    )
    problems = run("check", "--json", cwd=root).json["problems"]
    assert [problem["code"] for problem in problems] == ["import-missing", "unknown-key"]


def test_a_sound_city_is_one_line(in_harbour: Callable[..., Ran]) -> None:
    ran = in_harbour("check")
    assert ran == Ran(0, "harbour: 5 agents, 1 rig, 1 pack; no problems\n", "")


@pytest.mark.usefixtures("git_here")
def test_sessions_that_would_share_a_directory_are_reported(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    config = harbour / "city.toml"
    config.write_text(config.read_text().replace('isolation = "none"\n', ""))
    ran = in_harbour("check")
    assert ran.code == 0
    assert "all sessions of `dock/crew.pilot` work in one directory [shared-directory]" in ran.err
    git(harbour / "rigs/dock", "init", "--quiet")
    assert "rig `dock` has no commit yet" in in_harbour("check").err
    commit(harbour / "rigs/dock", {"a": ""})
    assert in_harbour("check").err == ""


def test_an_empty_city_toml_is_a_city(run: Command, town: Callable[..., Path]) -> None:
    ran = run("check", cwd=town())
    assert (ran.code, ran.err) == (0, "")


def test_every_problem_is_shown_at_once_with_its_place_line_caret_and_hint(
    run: Command, town: Callable[..., Path], snapshot: object
) -> None:
    ran = run("check", cwd=town(FAULTS))
    assert ran.code == 1
    assert ran.err == snapshot
    assert ran.out == snapshot(name="stdout")  # type: ignore[operator]


def test_an_agent_toml_that_cannot_be_parsed_is_one_problem_not_two(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"agents/broken/agent.toml": 'description = "unclosed\n'})
    codes = [problem["code"] for problem in run("check", "--json", cwd=root).json["problems"]]
    assert codes == ["bad-toml"]


def test_json_has_every_problem_that_the_text_has(run: Command, town: Callable[..., Path]) -> None:
    root = town(FAULTS)
    checked = run("check", cwd=root)
    ran = run("check", "--json", cwd=root)
    fits(ran.json, CHECK)
    assert (ran.code, ran.err) == (1, "")
    heads = [
        line for line in checked.err.splitlines() if line.endswith("]") and ": error: " in line
    ]
    problems = ran.json["problems"]
    assert len(heads) == len(problems)
    for head, problem in zip(heads, problems, strict=True):
        assert head.endswith(f"{problem['message']} [{problem['code']}]")
        if problem["line"] is not None:
            assert head.startswith(f"{problem['file']}:{problem['line']}:{problem['col']}: error: ")


def test_a_warning_leaves_the_exit_code_at_0_and_strict_makes_it_1(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"city.toml": "[agents]\nmax_active_sessions = 2\n"})
    text = (
        "city.toml:1:1: warning: `[agents]` is an older spelling of `[agent_defaults]`"
        " [older-spelling]\n"
        "    [agents]\n"
        "    ^\n"
        "  hint: write [agent_defaults]\n"
    )
    ran = run("check", cwd=root)
    assert (ran.code, ran.err) == (0, text)
    strict = run("check", "--strict", cwd=root)
    assert (strict.code, strict.err) == (1, text)
    assert run("check", "--strict", "--json", cwd=root).code == 1


def test_verbose_lists_what_an_import_adds_to_agents_that_are_not_its_own(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            "city.toml": 'implicit_agents = false\n[imports.crew]\nsource = "packs/crew"\n',
            "agents/mayor/prompt.md": "You are the mayor.\n",
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/agents/pilot/prompt.md": "You are the pilot.\n",
            "packs/crew/skills/knots/SKILL.md": "---\nname: knots\ndescription: Knots.\n---\n",
            "packs/crew/mcp/charts.toml": 'name = "charts"\ndescription = "c"\ncommand = "x"\n',
        }
    )
    ran = run("check", "-v", cwd=root)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "town: 2 agents, 0 rigs, 1 pack; no problems\n"
        "import crew adds to other agents:\n"
        "  skills knots → mayor\n"
        "  mcp charts → mayor\n"
    )
    answer = run("check", "-v", "--json", cwd=root).json
    fits(answer, CHECK_VERBOSE)
    assert answer["imports"] == [
        {
            "binding": "crew",
            "adds": [
                {"kind": "skills", "name": "knots", "agents": ["mayor"]},
                {"kind": "mcp", "name": "charts", "agents": ["mayor"]},
            ],
        }
    ]


def test_verbose_names_the_fragment_blocks_that_an_import_adds(
    run: Command, town: Callable[..., Path]
) -> None:
    blocks = '{{ define "tide" }}Low.{{ end }}{{ define "moon" }}Full.{{ end }}\n'
    root = town(
        {
            "city.toml": 'implicit_agents = false\n[imports.crew]\nsource = "packs/crew"\n',
            "agents/mayor/prompt.template.md": '{{ template "moon" }}\n',
            "template-fragments/own.template.md": '{{ define "moon" }}New.{{ end }}\n',
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/template-fragments/sky.template.md": blocks,
            "packs/crew/template-fragments/whole.template.md": "All of it.\n",
            "packs/crew/template-fragments/both.md.tmpl": 'A. {{ define "part" }}B.{{ end }}\n',
        }
    )
    ran = run("check", "-v", cwd=root)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith(
        "import crew adds to other agents:\n"
        "  fragments both → mayor\n"
        "  fragments part → mayor\n"
        "  fragments tide → mayor\n"
        "  fragments whole → mayor\n"
    )


def test_verbose_does_not_list_what_the_city_covers_with_its_own(
    in_harbour: Callable[..., Ran],
) -> None:
    (crew,) = in_harbour("check", "-v", "--json").json["imports"]
    assert crew == {"binding": "crew", "adds": []}


def test_an_import_that_shares_nothing_adds_nothing(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            "city.toml": '[imports.crew]\nsource = "packs/crew"\nshare = false\n',
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/skills/knots/SKILL.md": "---\nname: knots\ndescription: Knots.\n---\n",
        }
    )
    assert run("check", "-v", cwd=root).out.endswith(
        "import crew adds to other agents:\n  nothing\n"
    )


@pytest.mark.parametrize("arguments", [("--city", "../town"), ()], ids=["option", "environment"])
def test_the_city_may_be_named_from_elsewhere(
    run: Command, town: Callable[..., Path], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    town()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    env = {} if arguments else {"CITY_ROOT": str(tmp_path / "town")}
    ran = run(*arguments, "check", cwd=elsewhere, env=env)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("town: ")


def test_the_city_is_found_from_far_inside_it(run: Command, harbour: Path) -> None:
    ran = run("check", cwd=harbour / "agents/mayor/skills")
    assert ran.out.startswith("harbour: ")


def test_without_a_city_the_way_out_is_named(run: Command, tmp_path: Path) -> None:
    ran = run("check")
    assert ran == Ran(
        1,
        "",
        f"city: error: no city.toml in {tmp_path} or a parent directory [no-city]\n"
        "  hint: run `city init` to create a city here, or pass --city PATH\n",
    )


def test_a_city_named_wrongly_is_said_to_be_none(run: Command, tmp_path: Path) -> None:
    ran = run("--city", "nowhere", "check")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        f"city: error: no city.toml in {tmp_path}/nowhere [no-city]\n"
        "  hint: name the directory that contains city.toml; "
    )


@pytest.mark.parametrize("command", ["check", "status"])
def test_a_file_that_is_named_as_the_city_is_said_to_be_no_directory(
    run: Command, harbour: Path, command: str
) -> None:
    ran = run("--city", "city.toml", command, cwd=harbour)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"city: error: {harbour}/city.toml is not a directory [no-city]\n")


def test_a_city_that_only_the_environment_names_is_said_to_come_from_there(
    run: Command, harbour: Path
) -> None:
    ran = run("check", cwd=harbour, env={"CITY_ROOT": "/nowhere/at/all"})
    assert "no city.toml in /nowhere/at/all (from CITY_ROOT) [no-city]" in ran.err
    assert "hint: unset CITY_ROOT" in ran.err


@pytest.mark.parametrize(
    ("provider", "code"),
    [("codex", ""), ("kimi", "mcp-not-callable"), ("goose", "mcp-unsupported")],
)
def test_servers_that_an_agents_runs_cannot_call_are_reported(
    run: Command, town: Callable[..., Path], provider: str, code: str
) -> None:
    root = town(
        {
            "agents/scribe/agent.toml": f'provider = "{provider}"\n',
            "agents/scribe/prompt.md": "Write.\n",
            "mcp/docs.toml": 'name = "docs"\ndescription = "Searches."\ncommand = "docs"\n',
        }
    )
    found = [
        (one["code"], one["file"])
        for one in run("check", "--json", cwd=root).json["problems"]
        if one["code"].startswith("mcp-")
    ]
    assert found == ([(code, "agents/scribe/agent.toml")] if code else [])
    listed = run("mcp", "list", "--agent", "scribe", "--json", cwd=root).json["problems"]
    assert [one["code"] for one in listed] == ([code] if code else [])
    slung = run("sling", "scribe", "Write.", "--no-start", cwd=root)
    assert f"[{code}]" in slung.out if code else "warning" not in slung.out
    slung = run("sling", "scribe", "Write.", "--no-start", "--json", cwd=root)
    assert [one["code"] for one in slung.json["warnings"]] == ([code] if code else [])
