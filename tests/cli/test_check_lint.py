"""Warnings of `city check` about delegation, and about tools that a prompt names."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.trees import build_tree

PROMPT = "Work.\n"


def _found(run: Command, root: Path, code: str) -> list[tuple[str, str]]:
    problems = run("check", "--json", cwd=root).json["problems"]
    assert {each["severity"] for each in problems} <= {"warning"}
    return [(each["file"], each["message"]) for each in problems if each["code"] == code]


def _agents(**settings: str) -> dict[str, str]:
    files = {f"agents/{name}/prompt.md": PROMPT for name in settings}
    return files | {f"agents/{name}/agent.toml": text for name, text in settings.items()}


def _lists(*names: str, depth: int = 2) -> str:
    allow = ", ".join(f'"{name}"' for name in names)
    return f"[agents_filter]\nallow = [{allow}]\n[limits]\ndelegation_depth = {depth}\n"


_DENIED = _lists("two").replace("[limits]", 'deny = ["two"]\n[limits]')


@pytest.mark.parametrize(
    ("one", "two", "three", "way"),
    [
        pytest.param(_lists("two"), _lists("one"), "", "`one` → `two` → `one`", id="two"),
        pytest.param(_lists("t*"), _lists("on?"), "", "", id="globs"),
        pytest.param(
            _lists("two", depth=3),
            _lists("three", depth=3),
            _lists("one", depth=3),
            "`one` → `two` → `three` → `one`",
            id="three",
        ),
        pytest.param(_lists("two", depth=1), _lists("one", depth=1), "", "", id="too-deep"),
        pytest.param(_lists("two", depth=2), _lists("three"), _lists("one"), "", id="deeper"),
        pytest.param(_lists("*"), _lists("*"), "", "", id="not-by-name"),
        pytest.param(_lists("two"), f"hidden = true\n{_lists('one')}", "", "", id="hidden"),
        pytest.param(
            _DENIED,
            _lists("one"),
            "",
            "",
            id="denied",
        ),
    ],
)
def test_agents_that_name_one_another_are_a_circle_within_the_depth_limit(
    run: Command, town: Callable[..., Path], one: str, two: str, three: str, way: str
) -> None:
    root = town(_agents(one=one, two=two, three=three))
    found = _found(run, root, "delegation-cycle")
    text = f"the settings allow agents to delegate in a circle: {way}"
    assert [message for _, message in found] == ([text] if way else [])


@pytest.mark.parametrize(
    ("settings", "others", "found"),
    [
        pytest.param('mode = "subagent"\n', "", False, id="every-agent-may"),
        pytest.param('mode = "subagent"\nhidden = true\n', "", True, id="hidden"),
        pytest.param("hidden = true\n", "", False, id="users-may"),
        pytest.param('mode = "subagent"\n', "[agents_filter]\nallow = []\n", True, id="none-may"),
        pytest.param('mode = "subagent"\n', _lists("help"), False, id="one-may"),
        pytest.param(
            'mode = "subagent"\n', "[limits]\ndelegation_depth = 0\n", True, id="none-delegates"
        ),
        pytest.param(
            'mode = "subagent"\nmin_active_sessions = 1\n',
            "[agents_filter]\nallow = []\n",
            False,
            id="always-runs",
        ),
    ],
)
def test_an_agent_that_no_caller_can_give_work_to_is_unreachable(
    run: Command, town: Callable[..., Path], settings: str, others: str, found: bool
) -> None:
    root = town(_agents(help=settings, lead=others))
    if others:  # the built-in agents of the providers, too
        (root / "city.toml").write_text(re.sub(r"(?m)^\[", "[agent_defaults.", others))
        (root / "agents/help/agent.toml").write_text(settings + "[limits]\ndelegation_depth = 0\n")
    assert bool(_found(run, root, "unreachable-agent")) == found


def test_an_edit_of_one_agent_shows_and_removes_the_warnings_about_others(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(_agents(one=_lists("two"), two=""))
    for settings, count in (("", 0), (_lists("one"), 1), ("", 0)):
        build_tree(root, {"agents/two/agent.toml": settings})
        assert len(_found(run, root, "delegation-cycle")) == count


@pytest.mark.parametrize(
    ("prompt", "tools", "denied"),
    [
        pytest.param("Use the `fetch` tool.", 'deny = ["fetch"]', "tools.deny", id="neutral"),
        pytest.param("Call `WebFetch` first.", 'deny = ["fetch"]', "tools.deny", id="native"),
        pytest.param("Use the tool `shell`.", 'allow = ["read"]', "tools.allow", id="not-allowed"),
        pytest.param("Use `mcp__docs__find`.", 'deny = ["docs/*"]', "tools.deny", id="server"),
        pytest.param("Never use the `fetch` tool.", 'deny = ["fetch"]', "", id="forbidden"),
        pytest.param("Do not call\nthe tool `fetch`.", 'deny = ["fetch"]', "", id="wrapped"),
        pytest.param("Sling to `shell`. Then `read` it.", 'deny = ["shell"]', "", id="words"),
        pytest.param("Use the `shell` tool.", 'allow = ["shell(git *)"]', "", id="part-allowed"),
        pytest.param("Use the `Bash` tool.", 'allow = ["Bash(git:*)"]', "", id="own-words"),
        pytest.param("See `docs/find`.", 'deny = ["docs/find"]', "", id="a-path"),
        pytest.param("Use the `frobnicate` tool.", 'deny = ["fetch"]', "", id="unknown"),
        pytest.param("Use the `shell` tool.", 'deny = ["shell(rm *)"]', "", id="part-denied"),
    ],
)
def test_a_prompt_that_tells_the_agent_to_use_a_denied_tool_is_reported_at_its_line(
    run: Command, town: Callable[..., Path], prompt: str, tools: str, denied: str
) -> None:
    root = town(
        {
            "city.toml": '[workspace]\nprovider = "claude"\n',
            "agents/a/prompt.md": f"One.\n\n{prompt}\n",
            "agents/a/agent.toml": f"[tools]\n{tools}\n",
        }
    )
    problems = run("check", "--json", cwd=root).json["problems"]
    found = [each for each in problems if each["code"] == "denied-tool"]
    assert len(found) == bool(denied)
    if denied:
        assert (found[0]["file"], found[0]["line"]) == ("agents/a/prompt.md", 3)
        assert f"which `{denied}` denies" in found[0]["message"]


def test_a_type_without_starter_knowledge_is_reported_until_there_is_some(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(_agents(one='type = "codng"\n'))
    [(file, message)] = _found(run, root, "not-acted-on")
    assert (file, message) == (
        "agents/one/agent.toml",
        "`type` has no effect: there is no starter knowledge for `codng`",
    )
    build_tree(root, {"templates/knowledge/codng/x.md": "x\n"})
    assert _found(run, root, "not-acted-on") == []


def test_a_reflection_that_the_provider_cannot_do_is_reported(
    run: Command, town: Callable[..., Path]
) -> None:
    settings = 'provider = "{}"\nreflection = "./reflect.md"\n'
    root = town(_agents(script=settings.format("shell"), model=settings.format("claude")))
    for name in ("script", "model"):
        build_tree(root, {f"agents/{name}/reflect.md": "What did you learn?\n"})
    found = _found(run, root, "not-acted-on")
    assert [file for file, _ in found] == ["agents/script/agent.toml"]
