"""`city check` reports every setting that has no effect, and every pattern that matches nothing."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gascity.model.problems import Problem
from gascity.model.session_context import Machine
from gascity.pipeline import open_city
from gascity.source.disk import Disk
from gascity.workdir.check import check_city
from tests.support.trees import build_tree

MACHINE = Machine("linux", "2026-11-18")
CITY = {
    "city.toml": "",
    "agents/clerk/prompt.md": "Answer.\n",
    "agents/porter/prompt.md": "Carry.\n",
    "mcp/github.toml": 'name = "github"\ndescription = "x"\ncommand = "server"\n',
    "skills/tides/SKILL.md": "---\nname: tides\ndescription: Read tides.\n---\nRead.\n",
}


def problems(tmp_path: Path, files: Mapping[str, str]) -> list[Problem]:
    root = build_tree(tmp_path / "city", {**CITY, **files})
    disk = Disk(str(root))
    return check_city(open_city(str(root), {}, disk=disk), disk, MACHINE).problems


def of_clerk(tmp_path: Path, text: str, city: str = "") -> list[Problem]:
    return problems(tmp_path, {"agents/clerk/agent.toml": text, "city.toml": city})


def test_a_city_without_such_settings_has_no_problems(tmp_path: Path) -> None:
    assert problems(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('lifecycle = "one_shot"', "lifecycle"),
        ('options = { a = "b" }', "options"),
        ('provider = "shell"\nready_delay_ms = 5', "ready_delay_ms"),
        ('process_names = ["x"]', "process_names"),
        ('session = "acp"', 'session = "acp"'),
        ('provider = "shell"\nnudge = "x"', "nudge"),
        ('provider = "codex"\nwake_mode = "resume"', 'wake_mode = "resume" in terminals'),
    ],
)
def test_a_setting_that_nothing_acts_on_is_reported_at_its_place(
    tmp_path: Path, text: str, name: str
) -> None:
    [problem] = of_clerk(tmp_path, text + "\n")
    assert (problem.code, problem.is_error) == ("not-acted-on", False)
    assert problem.message.startswith(f"`{name}` has no effect: ")
    assert problem.place is not None
    assert problem.place.file == "agents/clerk/agent.toml"
    assert problem.place.path


@pytest.mark.parametrize(
    "text",
    [
        'lifecycle = ""',
        "options = {}",
        'session = "tmux"',
        'wake_mode = "fresh"',
        'wake_mode = "resume"',
    ],
)
def test_a_default_value_is_not_reported(tmp_path: Path, text: str) -> None:
    assert of_clerk(tmp_path, text + "\n") == []


SCOPES = [
    '[capabilities]\nallow = ["net.*"]\n',
    "[capabilities]\nallow = []\n",
    '[capabilities]\ndeny = ["net.*"]\n',
]


@pytest.mark.parametrize("text", SCOPES)
def test_a_restriction_that_nothing_enforces_is_an_error_where_enforcement_is_required(
    tmp_path: Path, text: str
) -> None:
    server = CITY["mcp/github.toml"] + 'capabilities = ["net.get", "disk"]\n'
    files = {"agents/clerk/agent.toml": text, "mcp/github.toml": server}
    [problem] = problems(tmp_path, files)
    assert (problem.code, problem.is_error) == ("unenforceable-scope", False)
    assert problem.hint == "set `gateway = true` in mcp/github.toml"
    required = {"city.toml": "[security]\nrequire_enforcement = true\n"}
    [problem] = problems(tmp_path, {**files, **required})
    assert (problem.code, problem.is_error) == ("unenforceable-scope", True)
    gateway = {"mcp/github.toml": server + "gateway = true\n"}
    assert problems(tmp_path, {**files, **required, **gateway}) == []


@pytest.mark.parametrize("text", SCOPES)
def test_capabilities_that_no_tool_has_are_enforced_without_the_gateway(
    tmp_path: Path, text: str
) -> None:
    assert of_clerk(tmp_path, text, "[security]\nrequire_enforcement = true\n") == []


def test_skills_of_servers_need_a_provider_with_skills(tmp_path: Path) -> None:
    [problem] = of_clerk(tmp_path, 'provider = "shell"\n[tools]\nexposure = "skills"\n')
    assert problem.message.startswith("`tools.exposure` has no effect: ")


def test_capabilities_that_grant_commands_are_acted_on(tmp_path: Path) -> None:
    assert of_clerk(tmp_path, '[capabilities]\nallow = ["city.work"]\n') == []


@pytest.mark.parametrize(
    ("key", "word", "hint"),
    [
        ("allow", "city.wrk", "did you mean `city.work`?"),
        ("allow", "city.*", "use one of city.sessions, "),
        ("deny", "city.admins", "did you mean `city.admin`?"),
    ],
)
def test_a_capability_that_does_not_exist_is_reported_at_the_word(
    tmp_path: Path, key: str, word: str, hint: str
) -> None:
    [problem] = of_clerk(tmp_path, f'[capabilities]\n{key} = ["city.mail", "{word}"]\n')
    assert (problem.code, problem.is_error) == ("not-acted-on", False)
    assert problem.message.startswith(f"`{word}` in `capabilities.{key}` has no effect: ")
    assert problem.hint is not None
    assert problem.hint.startswith(hint)
    assert problem.place is not None
    assert problem.place.path == ("capabilities", key, 1)


@pytest.mark.parametrize("text", ['model = "m"', '[option_defaults]\nmodel = "m"'])
def test_an_option_that_the_program_saves_in_the_users_settings_is_reported(
    tmp_path: Path, text: str
) -> None:
    [problem] = of_clerk(tmp_path, f'provider = "cline"\n{text}\n')
    assert (problem.code, problem.is_error) == ("saved-option", False)
    assert problem.place is not None
    assert problem.place.file == "agents/clerk/agent.toml"
    assert of_clerk(tmp_path, f'provider = "qwen"\n{text}\n') == []


@pytest.mark.parametrize(
    ("city", "agent", "file"),
    [
        ("", 'runtime = "proces"\n', "agents/clerk/agent.toml"),
        ('[session]\nruntime = "proces"\n', "", "city.toml"),
    ],
)
def test_a_runtime_that_is_not_installed_is_an_error_once(
    tmp_path: Path, city: str, agent: str, file: str
) -> None:
    [problem] = of_clerk(tmp_path, agent, city)
    assert (problem.code, problem.is_error) == ("unknown-runtime", True)
    assert problem.hint == "did you mean `process`?"
    assert problem.place is not None
    assert problem.place.file == file


def test_resuming_is_reported_only_as_far_as_a_provider_has_conversations(tmp_path: Path) -> None:
    mode = 'wake_mode = "resume"\n'
    assert of_clerk(tmp_path, f'provider = "shell"\n{mode}') == []
    table = '[providers.own]\ncommand = "own"\nheadless.args = ["run"]\n'
    found = of_clerk(tmp_path, f'provider = "own"\n{mode}', table)
    assert [problem.message for problem in found if problem.code == "not-acted-on"] == [
        '`wake_mode = "resume" for conversations` has no effect: '
        "provider `own` cannot resume a conversation"
    ]


@pytest.mark.parametrize("key", ["args", "args_append"])
def test_arguments_of_a_provider_apply_to_headless_runs_so_nothing_is_reported(
    tmp_path: Path, key: str
) -> None:
    assert of_clerk(tmp_path, "", f'[providers.claude]\n{key} = ["--x"]\n') == []


@pytest.mark.parametrize(
    ("table", "pattern", "near"),
    [
        ("mcp_filter", "githubb", "github"),
        ("skills_filter", "tidse", "tides"),
        ("agents_filter", "portr", "porter"),
    ],
)
@pytest.mark.parametrize("key", ["allow", "deny"])
def test_a_pattern_that_matches_nothing_is_reported_at_the_pattern(
    tmp_path: Path, table: str, pattern: str, near: str, key: str
) -> None:
    text = f'[{table}]\n{key} = ["{near}", "{pattern}"]\n'
    [problem] = of_clerk(tmp_path, text)
    assert (problem.code, problem.is_error) == ("dead-pattern", False)
    assert problem.message.startswith(f"`{pattern}` matches no ")
    assert problem.hint == f"did you mean `{near}`?"
    assert problem.place is not None
    assert problem.place.path == (table, key, 1)


def test_globs_and_instances_in_rigs_match(tmp_path: Path) -> None:
    rig = '[[rigs]]\nname = "web"\npath = "rig"\n'
    text = '[agents_filter]\nallow = ["web/porter", "por*", "shell", "codex"]\n'
    files = {"agents/clerk/agent.toml": text, "city.toml": rig, "rig/x": ""}
    codes = [problem.code for problem in problems(tmp_path, files)]
    assert "dead-pattern" not in codes


def test_a_pattern_of_an_imported_pack_may_match_nothing(tmp_path: Path) -> None:
    files = {
        "city.toml": '[imports.p]\nsource = "p"\n',
        "p/pack.toml": '[pack]\nname = "p"\n',
        "p/agents/dog/prompt.md": "Dog.\n",
        "p/agents/dog/agent.toml": '[mcp_filter]\nallow = ["absent"]\n',
    }
    assert problems(tmp_path, files) == []
    patch = '[[patches.agent]]\nname = "p.dog"\n[patches.agent.mcp_filter]\nallow = ["gone"]\n'
    [problem] = problems(tmp_path, {**files, "city.toml": files["city.toml"] + patch})
    assert problem.code == "dead-pattern"
