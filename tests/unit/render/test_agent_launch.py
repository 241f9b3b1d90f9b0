"""A session's own agent in the command line and the environment of its run."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gascity.mcp.launch import LaunchArguments
from gascity.model.city import City
from gascity.render.argv import MAX_ARG_BYTES, Invocation, Message, build_invocation
from gascity.render.flags import HEADLESS, INTERACTIVE, scope_problems
from tests.support.city import CityBuilder, agent_of

PROMPT = "You keep the harbour.\n"
VARIABLE = "OPENCODE_CONFIG_CONTENT"
Start = Callable[..., Invocation]


def town_with(city: CityBuilder, provider: str, agent_toml: str) -> City:
    return city(
        {
            "agents/cop/prompt.md": PROMPT,
            "agents/cop/agent.toml": f'provider = "{provider}"\n{agent_toml}',
        }
    )


@pytest.fixture
def started(city: CityBuilder) -> Start:
    """`started("opencode", 'steps = 3', kind=HEADLESS, environ={...})`."""

    def start(provider: str, agent_toml: str = "", **more: Any) -> Invocation:
        town = town_with(city, provider, agent_toml)
        extra = LaunchArguments((), more.pop("env", {}), file_prompt=more.pop("file_prompt", None))
        extra = extra._replace(hud=more.pop("hud", ""))
        return build_invocation(
            more.pop("kind", HEADLESS),
            town.providers[provider],
            agent_of(town, "cop"),
            Message(more.pop("prompt", PROMPT), "Count the ships."),
            conversation="",
            resume=False,
            extra=extra._replace(agent_name=more.pop("agent_name", "")),
            file_path=lambda name: f"/box/{name}",
            **more,
        )

    return start


def agents_of(made: Invocation) -> dict[str, Any]:
    agents: dict[str, Any] = json.loads(made.env[VARIABLE])["agent"]
    return agents


def test_a_launched_agent_has_the_prompt_and_the_message_only_the_work(started: Start) -> None:
    made = started("opencode")
    assert made.argv[-2:] == ("--agent", "cop")
    assert agents_of(made)["cop"]["prompt"] == PROMPT
    assert made.stdin == "Count the ships."


def test_a_launched_agent_has_the_rules_of_its_tools(started: Start) -> None:
    made = started("opencode", '[tools]\nallow = ["read", "shell(git log *)"]')
    assert agents_of(made)["cop"]["permission"] == {
        "*": "deny",
        "read": "allow",
        "bash": {"*": "deny", "git log *": "allow"},
    }
    assert made.problems == ()


def test_settings_of_the_model_are_in_the_launched_agent(started: Start) -> None:
    settings = 'temperature = 0.5\ntop_p = 1\nsteps = 3\nvariant = "high"\noptions = { x = 1 }'
    agent = agents_of(started("opencode", settings))["cop"]
    values = {key: agent[key] for key in ("temperature", "top_p", "steps", "variant", "x")}
    assert values == {"temperature": 0.5, "top_p": 1, "steps": 3, "variant": "high", "x": 1}


def test_a_launched_agent_is_never_a_subagent(started: Start) -> None:
    """OpenCode starts its default agent, without any rules, in place of a subagent."""
    agent = agents_of(started("opencode", 'mode = "subagent"\nhidden = true'))["cop"]
    assert agent.keys() == {"description", "prompt"}


def test_the_launch_keeps_what_the_variable_already_had(started: Start) -> None:
    users = '{"model": "a/b", "agent": {"cop": {"permission": "allow"}}} // mine'
    servers = '{"mcp": {"docs": {"command": ["{env:DOCS}"]}}}'
    made = started(
        "opencode",
        '[tools]\nallow = ["read"]',
        environ={VARIABLE: users},
        env={VARIABLE: servers},
    )
    document = json.loads(made.env[VARIABLE])
    assert (document["model"], document["mcp"]["docs"]) == ("a/b", {"command": ["{env:DOCS}"]})
    assert document["agent"]["cop"]["permission"] == {"*": "deny", "read": "allow"}


def test_a_variable_that_is_no_json_is_an_error(started: Start) -> None:
    for text in ("nothing", "[]", "{"):
        made = started("opencode", environ={VARIABLE: text})
        assert [problem.code for problem in made.problems if problem.is_error] == ["bad-json"]


def test_references_in_a_prompt_are_not_expanded(started: Start) -> None:
    prompt = "Say {env:HOME}, {file:/etc/passwd} and \\{env:X}.\n"
    made = started("opencode", prompt=prompt)
    assert "{env:" not in made.env[VARIABLE]
    assert "{file:" not in made.env[VARIABLE]
    assert agents_of(made)["cop"]["prompt"] == prompt


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_prompt_arrives_unchanged(started: Start, prompt: str) -> None:
    assert agents_of(started("opencode", prompt=prompt))["cop"]["prompt"] == prompt


def test_a_prompt_that_no_variable_can_hold_is_in_the_message(started: Start) -> None:
    long = "p" * MAX_ARG_BYTES
    made = started("opencode", '[tools]\nallow = ["read"]', prompt=long)
    assert made.problems == ()
    assert made.stdin == f"{long}\n\nCount the ships."
    assert agents_of(made)["cop"].keys() == {"description", "permission"}


def test_the_own_agent_takes_the_place_of_the_plan_agent(started: Start) -> None:
    mode = '[option_defaults]\npermission_mode = "plan"\n'
    made = started("opencode", mode + '[tools]\nallow = ["read", "edit"]')
    assert made.argv.count("--agent") == 1
    assert agents_of(made)["cop"]["permission"] == {"*": "deny", "read": "allow", "edit": "deny"}


def test_arguments_that_name_an_agent_are_kept(started: Start) -> None:
    made = started("opencode", 'args = ["--agent", "build"]')
    assert VARIABLE not in made.env
    assert made.stdin == f"{PROMPT}\nCount the ships."


def test_an_agent_of_the_project_is_not_merged_with_the_own_one(started: Start) -> None:
    made = started("opencode", agent_name="city-cop")
    assert made.argv[-2:] == ("--agent", "city-cop")
    assert agents_of(made).keys() == {"city-cop"}


def test_a_run_uses_the_agent_file_of_its_directory(started: Start) -> None:
    made = started("copilot", file_prompt=PROMPT)
    assert made.argv[-3:] == ("--agent", "cop", "--trust-folder")
    assert made.stdin == "Count the ships."


def test_the_message_has_the_hud_that_the_agent_file_does_not_have(started: Start) -> None:
    made = started("copilot", file_prompt=PROMPT, hud="The tide is low.")
    assert made.stdin == "The tide is low.\n\nCount the ships."
    made = started("copilot", file_prompt="You keep another harbour.\n", hud="The tide is low.")
    assert made.stdin == f"{PROMPT}\nCount the ships."  # the whole prompt has it


def test_a_file_with_the_values_of_another_session_does_not_replace_the_prompt(
    started: Start,
) -> None:
    made = started("copilot", file_prompt="You keep another harbour.\n")
    assert "--agent" in made.argv
    assert made.stdin == f"{PROMPT}\nCount the ships."


def test_a_restricted_agent_does_not_start_without_its_file(started: Start) -> None:
    assert "--agent" not in started("copilot").argv
    made = started("copilot", '[tools]\nallow = ["read"]')
    assert [problem.code for problem in made.problems if problem.is_error] == ["agent-file-missing"]


def test_the_own_agent_replaces_the_name_in_the_providers_arguments(started: Start) -> None:
    made = started("kiro", file_prompt=PROMPT)
    assert "gascity" not in made.argv
    assert made.argv.count("--agent") == 1
    assert made.argv[made.argv.index("--agent") + 1] == "cop"


@pytest.mark.parametrize("kind", [HEADLESS, INTERACTIVE])
@pytest.mark.parametrize("provider", ["opencode", "kilo"])
def test_rules_leave_no_restriction_open(started: Start, provider: str, kind: str) -> None:
    tools = 'allow = ["read", "docs/*"]\ndeny = ["shell(rm *)", "docs/drop"]\nask = ["edit"]'
    assert started(provider, f"[tools]\n{tools}", kind=kind).problems == ()


def test_a_word_that_no_rule_expresses_stays_a_warning(city: CityBuilder) -> None:
    town = town_with(city, "opencode", '[tools]\nallow = ["read", "Bash(git:*)!"]')
    (problem,) = scope_problems(town, agent_of(town, "cop"))
    assert (problem.code, "`Bash(git:*)!`" in problem.message) == ("unenforceable-scope", True)


def test_a_command_of_the_users_own_enforces_nothing(city: CityBuilder) -> None:
    for command in ('start_command = "x"', 'resume_command = "x"'):
        town = town_with(city, "opencode", f'{command}\n[tools]\nallow = ["read"]')
        codes = [problem.code for problem in scope_problems(town, agent_of(town, "cop"))]
        assert codes == ["unenforceable-scope"], command


def test_a_list_of_whole_tools_leaves_parts_to_the_flags(started: Start) -> None:
    tools = '[tools]\nallow = ["read", "shell(git *)"]'
    made = started("copilot", tools, file_prompt=PROMPT)
    assert made.problems == ()
    assert "--allow-tool=shell(git:*)" in made.argv


def test_steps_limit_the_turns_of_headless_runs(started: Start) -> None:
    argv = started("claude", "steps = 5").argv
    assert argv[argv.index("--max-turns") + 1] == "5"
    assert "--max-turns" not in started("claude", "steps = 5", kind=INTERACTIVE).argv


def test_a_variant_is_the_effort_unless_that_is_set(started: Start) -> None:
    argv = started("claude", 'variant = "high"').argv
    assert argv[argv.index("--effort") + 1] == "high"
    both = started("claude", 'variant = "high"\noption_defaults = { effort = "low" }').argv
    assert both[both.index("--effort") + 1] == "low"
