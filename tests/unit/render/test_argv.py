"""The command line of a run, from the facts of its provider and the settings of its agent."""

import os
import tomllib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from gascity.model.city import Agent, City
from gascity.model.provider import Provider
from gascity.pipeline import open_city
from gascity.render.arguments import fill_placeholders
from gascity.render.argv import MAX_ARG_BYTES, Invocation, Message, build_invocation
from gascity.render.flags import HEADLESS, INTERACTIVE, permission_mode
from tests.support.city import CityBuilder, agent_of

MESSAGE = Message("You keep the harbour.\n", "Count the ships.")
ID = "0c8e087f-e4e2-4884-9687-a673ee9d3833"


class Extra(NamedTuple):
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    servers: tuple[str, ...] = ()
    file_prompt: str | None = None
    agent_name: str = ""
    hud: str = ""
    gateways: tuple[str, ...] = ()


class Dock(NamedTuple):
    """A provider with an agent of it."""

    provider: Provider
    agent: Agent

    def run(self, message: Message = MESSAGE, resume: bool = False) -> Invocation:
        return self.start(HEADLESS, message, resume)

    def talk(self, message: Message = MESSAGE, resume: bool = False) -> Invocation:
        return self.start(INTERACTIVE, message, resume)

    def start(self, kind: str, message: Message, resume: bool) -> Invocation:
        return build_invocation(
            kind,
            self.provider,
            self.agent,
            message,
            conversation=ID,
            resume=resume,
            extra=Extra(),
            file_path=lambda name: f"/box/{name}",
        )


Docked = Callable[..., Dock]


@pytest.fixture
def dock(city: CityBuilder) -> Docked:
    """`dock("claude", 'model = "opus"')`: a provider, and an agent with these settings."""

    def build(provider: str, settings: str = "", city_toml: str = "") -> Dock:
        made = city(
            {
                "city.toml": city_toml,
                "agents/mayor/prompt.md": "You keep the harbour.\n",
                "agents/mayor/agent.toml": f'provider = "{provider}"\n{settings}',
            }
        )
        return Dock(made.providers[provider], agent_of(made, "mayor"))

    return build


@pytest.fixture
def everyone(city: CityBuilder) -> list[Dock]:
    """Every provider that can be started, each with an agent that says nothing of its own."""
    city.write({"city.toml": ""})
    names = sorted(open_city(str(city.root), os.environ, all_providers=True).providers)
    files = {f"agents/a-{n}/agent.toml": f'provider = "{n}"\n' for n in names}
    city.write({**files, **{f"agents/a-{n}/prompt.md": "Hi.\n" for n in names}})
    made: City = city.open()
    docks = [Dock(made.providers[n], agent_of(made, f"a-{n}")) for n in names]
    return [one for one in docks if one.provider.launches]


def shown(made: Invocation) -> str:
    """An invocation as one line."""
    words = " ".join(repr(one) if " " in one or "\n" in one else one for one in made.argv)
    env = "".join(f" [{key}={value}]" for key, value in made.env.items())
    stdin = f" < {made.stdin!r}" if made.stdin else ""
    files = "".join(f" {name}: {text!r}" for name, text in made.files.items())
    return words + env + stdin + files


def test_every_provider_is_started_in_its_own_words(
    everyone: list[Dock], snapshot: SnapshotAssertion
) -> None:
    lines = []
    for one in everyone:
        lines.append(f"{one.provider.name}:")
        if one.provider.headless:
            lines += [f"  run     {shown(one.run())}", f"  resume  {shown(one.run(resume=True))}"]
        if one.provider.facts.interactive:
            lines += [f"  talk    {shown(one.talk())}", f"  go on   {shown(one.talk(resume=True))}"]
    assert "\n".join(lines) == snapshot


def test_prompt_and_text_reach_every_provider_that_takes_any(everyone: list[Dock]) -> None:
    for one in everyone:
        if not one.provider.headless or one.provider.facts.script:
            continue
        made = one.run()
        texts = (*made.argv, made.stdin, *made.files.values(), *made.env.values())
        everything = "\0".join(texts)
        assert "You keep the harbour." in everything, one.provider.name
        assert "Count the ships." in everything, one.provider.name


def test_the_prompt_is_not_said_again_in_a_conversation_that_has_it(everyone: list[Dock]) -> None:
    for one in everyone:
        made = one.run(resume=True)
        if not made.conversation:
            continue  # it cannot resume, so it begins again
        assert "You keep the harbour." not in made.stdin + made.files.get("message.md", "")
        assert ID in made.argv


def test_a_long_message_never_stands_on_a_command_line(dock: Docked) -> None:
    long = Message("p" * MAX_ARG_BYTES, "t" * MAX_ARG_BYTES)
    for name in ("claude", "codex", "gemini", "opencode", "copilot", "qwen", "droid", "grok"):
        made = dock(name).run(long)
        assert not made.problems, name
        assert max(map(len, made.argv)) < 300, name


def test_a_message_that_no_argument_can_hold_is_an_error(dock: Docked) -> None:
    one = dock("cursor")
    fits = Message("", "t" * (MAX_ARG_BYTES - 2))
    assert not one.run(fits).problems
    (problem,) = one.run(Message("", "t" * (MAX_ARG_BYTES - 1))).problems
    assert (problem.code, problem.is_error) == ("message-not-passed", True)
    assert [p.code for p in one.run(Message("", "a\0b")).problems] == ["message-not-passed"]


@given(text=st.text(min_size=1))
def test_no_text_is_taken_for_a_flag(text: str) -> None:
    from gascity.render.argv import _input, _InputMode

    ways = [
        _InputMode("arg"),
        _InputMode("arg", separator="--"),
        _InputMode("flag", "--say"),
        _InputMode("flag", "--say="),
    ]
    for way in ways:
        *before, last = _input(way, text, str).args
        assert last.endswith(text)
        if way.mode == "arg" and "--" not in before:
            assert not last.startswith("-")


PRINT = ("claude", "-p", "--output-format", "stream-json", "--verbose")


@given(prompt=st.text(min_size=1))
def test_a_system_prompt_in_a_setting_is_a_string_of_toml(prompt: str) -> None:
    arg = fill_placeholders('developer_instructions="{prompt}"', {"prompt": prompt})
    assert tomllib.loads(arg) == {"developer_instructions": prompt}


def test_a_system_prompt_that_no_argument_can_hold_is_part_of_the_message(dock: Docked) -> None:
    made = dock("codex").run(Message("x" * MAX_ARG_BYTES, "Count the ships."))
    assert made.stdin == "x" * MAX_ARG_BYTES + "\n\nCount the ships."
    assert not any("developer_instructions" in arg for arg in made.argv)


def test_an_agents_arguments_do_not_replace_those_that_make_a_run_headless(dock: Docked) -> None:
    docked = dock("claude", 'args = ["--bare"]\n')
    assert docked.run().argv[:6] == (*PRINT, "--bare")
    assert docked.talk().argv[:2] == ("claude", "--bare")


def test_arguments_that_make_a_run_headless_are_not_repeated(dock: Docked) -> None:
    made = dock("claude", 'args = ["-p", "--output-format", "stream-json"]\n').run()
    assert made.argv.count("-p") == made.argv.count("--output-format") == 1


@pytest.mark.parametrize("key", ["args", "args_append"])
def test_a_providers_arguments_apply_to_headless_runs_too(dock: Docked, key: str) -> None:
    docked = dock("claude", "", f'[providers.claude]\n{key} = ["--model", "opus"]\n')
    assert docked.run().argv[:7] == (*PRINT, "--model", "opus")
    assert docked.talk().argv[:3] == ("claude", "--model", "opus")


def test_arguments_of_a_derived_provider_and_of_an_agent_add_up(dock: Docked) -> None:
    table = '[providers.fast]\nbase = "claude"\nargs = ["--model", "haiku"]\n'
    made = dock("fast", 'args_append = ["--bare"]\n', table).run()
    assert made.argv[:8] == (*PRINT, "--model", "haiku", "--bare")
    made = dock("fast", 'args_remove = ["--model", "haiku"]\n', table).run()
    assert made.argv[:6] == (*PRINT, "--permission-mode")


def test_a_table_with_headless_arguments_says_what_a_headless_run_gets(dock: Docked) -> None:
    table = '[providers.claude]\nargs = ["--ide"]\n[providers.claude.headless]\nargs = ["-p"]\n'
    docked = dock("claude", 'args_append = ["--bare"]\n', table)
    assert docked.run().argv[:3] == ("claude", "-p", "--bare")
    assert docked.talk().argv[:3] == ("claude", "--ide", "--bare")


def test_a_program_without_headless_arguments_gets_its_usual_ones(dock: Docked) -> None:
    table = '[providers.parrot]\ncommand = "parrot"\nargs = ["--loud"]\n'
    assert dock("parrot", 'args_append = ["--red"]\n', table).run().argv[:3] == (
        "parrot",
        "--loud",
        "--red",
    )


def test_arguments_that_an_agent_adds_come_behind_the_providers(dock: Docked) -> None:
    made = dock("claude", 'args_append = ["--bare"]\n').run()
    assert made.argv[:6] == (
        "claude",
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--bare",
    )


def test_options_are_the_agents_then_the_providers_then_their_defaults(dock: Docked) -> None:
    table = '[providers.claude.option_defaults]\neffort = "low"\npermission_mode = "plan"\n'
    agent = 'model = "opus"\noption_defaults = { effort = "high" }\n'
    argv = dock("claude", agent, table).run().argv
    assert " ".join(argv[5:11]) == "--permission-mode plan --model opus --effort high"
    assert "acceptEdits" in dock("claude").run().argv


def test_a_value_outside_the_choices_is_passed_on_where_the_option_is_open(dock: Docked) -> None:
    argv = dock("codex", 'model = "gpt-9"\n').run().argv
    assert argv[argv.index("--model") + 1] == "gpt-9"


def test_a_flag_that_two_options_set_is_said_once(dock: Docked) -> None:
    argv = dock("codex", 'option_defaults = { sandbox = "read-only" }\n').run().argv
    assert argv.count("--sandbox") == 1
    assert argv[argv.index("--sandbox") + 1] == "read-only"


def test_options_of_one_kind_of_run_stay_out_of_the_other(dock: Docked) -> None:
    one = dock("droid", 'model = "gpt-9"\noption_defaults = { permission_mode = "unrestricted" }\n')
    assert {"--model", "--skip-permissions-unsafe"} <= set(one.run().argv)
    assert not {"--model", "--skip-permissions-unsafe"} & set(one.talk().argv)


def test_a_shell_runs_the_text_alone(dock: Docked) -> None:
    made = dock("shell").run()
    assert made.argv == ("sh", "/box/message.md")
    assert made.files == {"message.md": "Count the ships."}


def test_a_start_command_is_handed_nothing_unless_it_says_how(dock: Docked) -> None:
    assert dock("claude", 'start_command = "watch --all"\n').run() == Invocation(
        ("sh", "-c", "watch --all")
    )
    asked = dock("claude", 'start_command = "./go | tee log; ./on"\nprompt_mode = "arg"\n').run()
    whole = "You keep the harbour.\n\nCount the ships."
    assert asked.argv == ("sh", "-c", './go | tee log; ./on "$@"', "sh", whole)
    piped = dock("claude", 'start_command = "./go"\nprompt_mode = "stdin"\n').run()
    assert (piped.argv, piped.stdin) == (("sh", "-c", "./go"), whole)


def test_a_resume_command_gets_the_conversation_as_one_word(dock: Docked) -> None:
    one = dock("claude", 'resume_command = "claude -r {{.SessionKey}}"\n')
    assert one.talk(Message("", ""), resume=True).argv == ("sh", "-c", f"claude -r {ID}")
    argv_words = one.talk(resume=True).argv
    assert argv_words == ("sh", "-c", f'claude -r {ID} "$@"', "sh", "--", "Count the ships.")
    odd = build_invocation(
        INTERACTIVE,
        one.provider,
        one.agent,
        MESSAGE,
        conversation="x; rm -r .",
        resume=True,
        extra=Extra(),
        file_path=str,
    )
    assert odd.argv[2] == "claude -r 'x; rm -r .' \"$@\""


def test_nothing_is_passed_in_mode_none(dock: Docked) -> None:
    made = dock("claude", 'prompt_mode = "none"\n').run()
    assert (made.stdin, made.files) == ("", {})
    assert not any("system-prompt" in word for word in made.argv)


def test_trust_and_servers_come_before_the_prompt(dock: Docked) -> None:
    one = dock("cursor")
    made = build_invocation(
        HEADLESS,
        one.provider,
        one.agent,
        MESSAGE,
        conversation="",
        resume=False,
        extra=Extra(("--approve-mcps",), {"A": "b"}),
        file_path=str,
    )
    assert made.argv[-2] == "--approve-mcps"
    assert made.env == {"A": "b"}


def test_the_permission_mode_of_a_run_is_known(dock: Docked) -> None:
    def mode(provider: str, settings: str = "") -> str:
        one = dock(provider, settings)
        return permission_mode(one.provider, one.agent)

    assert mode("claude") == "auto-edit"
    assert mode("claude", 'option_defaults = { permission_mode = "plan" }\n') == "plan"
    assert mode("auggie") == ""
    assert mode("kiro") == "unrestricted"  # it is in its arguments
    assert mode("shell") == ""


@pytest.mark.parametrize("scope", ['allow = ["read"]', 'deny = ["shell"]', 'ask = ["shell"]'])
def test_an_agent_with_a_scope_of_tools_never_runs_unrestricted(dock: Docked, scope: str) -> None:
    free = 'option_defaults = { permission_mode = "unrestricted" }\n'
    for name, flag in (
        ("claude", "--dangerously-skip-permissions"),
        ("codex", "--dangerously-bypass-approvals-and-sandbox"),
        ("kiro", "--trust-all-tools"),
    ):
        assert flag in dock(name, free).run().argv
        one = dock(name, f"{free}[tools]\n{scope}\n")
        assert flag not in one.run().argv
        assert "unrestricted-with-tools" in [p.code for p in one.run().problems]
        assert permission_mode(one.provider, one.agent) != "unrestricted"
    named = f'args = ["--dangerously-skip-permissions", "-p"]\n[tools]\n{scope}\n'
    assert "--dangerously-skip-permissions" not in dock("claude", named).run().argv
