"""Provider hooks as published packs write them: `gc hook run`, `--hook-format`, exit codes."""

import json
import shlex
import time
from collections.abc import Callable

import pytest

from gascity.cli.hook_output import hook_object
from tests.cli.conftest import REAL_PATH
from tests.cli.kept import Kept, gc, kept
from tests.support.command import Ran

__all__ = ["gc", "kept"]

# The calls in the hooks of the public `core` pack, for all of its providers.
CORE_HOOKS = (
    "gc prime --hook",
    "gc prime --hook --hook-format codex",
    "gc prime --hook --hook-format gemini",
    "gc --city . prime --hook --hook-format codex",
    "gc handoff --auto 'context cycle'",
    "gc handoff --auto --hook-format codex 'context cycle'",
    "gc nudge drain --inject",
    "gc mail check --inject",
    "gc hook --inject",
    "gc hook run --timeout 15s --timeout-exit-code 0 -- nudge drain --inject",
    "gc hook run --timeout 15s --timeout-exit-code 0 -- nudge drain --inject --hook-format codex",
    "gc hook run --timeout 15s --timeout-exit-code 0 -- mail check --inject",
    "gc hook run --timeout=15s --timeout-exit-code=0 -- mail check --inject --hook-format gemini",
)


def called(gc: Callable[..., Ran], line: str, **options: object) -> Ran:
    return gc(*shlex.split(line)[1:], **options)


@pytest.mark.parametrize("line", CORE_HOOKS)
def test_every_hook_of_the_core_pack_succeeds_in_a_session(
    gc: Callable[..., Ran], kept: Kept, line: str
) -> None:
    assert called(gc, line, as_=kept.session()).code == 0


@pytest.mark.parametrize("line", CORE_HOOKS)
def test_every_hook_of_the_core_pack_is_silent_for_a_program_that_no_session_started(
    gc: Callable[..., Ran], line: str
) -> None:
    ran = called(gc, line)
    assert (ran.code, ran.out) == (0, "")


@pytest.mark.parametrize(
    "line",
    [
        "gc hook --unknown",
        "gc hook one two three",
        "gc hook run",
        "gc hook run --unknown 3 -- mail check",
        "gc hook run --timeout soon -- mail check",
        "gc hook run --timeout-exit-code many -- mail check",
        "gc prime --unknown",
        "gc mail check --unknown",
        "gc mail --unknown",
        "gc --unknown",
        "gc no-such-command --inject",
        "gc bd prime",
        "gc",
    ],
)
def test_no_usage_error_under_the_name_gc_exits_with_2(gc: Callable[..., Ran], line: str) -> None:
    ran = called(gc, line)
    assert ran.code == 1
    assert ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("hook", "--unknown"),
        ("hook", "--inject", "--unknown"),
        ("prime", "--hook", "--unknown"),
        ("mail", "check", "--unknown"),
        ("mail", "inbox", "--inject"),
    ],
)
def test_no_usage_error_of_a_hooks_command_exits_with_2(
    kept: Kept, arguments: tuple[str, ...]
) -> None:
    assert kept(*arguments).code == 1


# hook run


def test_hook_run_passes_output_and_exit_code_on(gc: Callable[..., Ran], kept: Kept) -> None:
    assert gc("hook", "run", "--", "mail", "check") == gc("mail", "check")
    session, work = kept.session(), kept.sling()
    ran = gc("hook", "run", "--timeout", "1m", "--", "hook", "--json", as_=session)
    assert (ran.code, ran.json["bead_id"]) == (0, work.id)
    assert gc("hook", "run", "--", "gc", "hook", as_=session).code == 0


@pytest.mark.parametrize(("options", "code"), [(("--timeout-exit-code", "0"), 0), ((), 124)])
def test_a_hook_that_times_out_exits_as_requested_and_prints_nothing_to_stdout(
    gc: Callable[..., Ran], kept: Kept, options: tuple[str, ...], code: int
) -> None:
    session = kept.session()
    ran = gc("hook", "run", "--timeout", "1ms", *options, "--", "prime", as_=session)
    assert (ran.code, ran.out) == (code, "")
    assert "timed out after" in ran.err


def test_hook_run_also_runs_a_program_that_is_no_command_of_gc(gc: Callable[..., Ran]) -> None:
    ran = gc("hook", "run", "--", "sh", "-c", "echo tide; exit 3", PATH=REAL_PATH)
    assert (ran.code, ran.out) == (3, "tide\n")
    options = ("--timeout", "50ms", "--timeout-exit-code", "7")
    ran = gc("hook", "run", *options, "--", "sleep", "600", PATH=REAL_PATH)
    assert (ran.code, ran.out) == (7, "")
    for words in (("gc", "sh"), ("no-such-program",), ("bd", "prime")):
        assert gc("hook", "run", "--", *words, PATH=REAL_PATH).code == 1


# --hook-format


def test_hook_format_wraps_mail_as_the_provider_reads_it(kept: Kept) -> None:
    session = kept.session()
    assert kept("mail", "send", "mayor", "The tide is high.").code == 0
    plain = kept("mail", "check", "--inject", as_=session).out
    assert "The tide is high." in plain
    for provider in ("claude", "Copilot", "no-such-provider"):
        ran = kept("mail", "check", "--inject", "--hook-format", provider, as_=session)
        assert ran.out == plain
    ran = kept("mail", "check", "--inject", "--hook-format", "codex", as_=session)
    assert json.loads(ran.out) == hook_object("event-context", plain.strip(), "UserPromptSubmit")
    ran = kept("mail", "check", "--inject", "--hook-format", "gemini", as_=session)
    assert json.loads(ran.out) == {"hookSpecificOutput": {"additionalContext": plain.strip()}}
    ran = kept("mail", "check", "--inject", "--hook-format", "antigravity", as_=session)
    assert json.loads(ran.out) == {"injectSteps": [{"ephemeralMessage": plain.strip()}]}


def test_hook_format_wraps_the_prompt_and_the_work(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.claim(session, work)
    plain = kept("prime", "--hook", as_=session).out
    ran = kept("prime", "--hook", "--hook-format", "codex", as_=session)
    content = {"hookEventName": "SessionStart", "additionalContext": plain.strip()}
    assert json.loads(ran.out) == {"hookSpecificOutput": content}
    env = {"GC_HOOK_EVENT_NAME": "PostCompact"}
    ran = kept("prime", "--hook", "--hook-format", "codex", as_=session, env=env)
    assert json.loads(ran.out)["hookSpecificOutput"]["hookEventName"] == "PostCompact"


def test_hook_format_puts_nudges_and_work_into_one_object(kept: Kept) -> None:
    session, work = kept.session(), kept.sling()
    kept.store.add_nudge(session.id, "Look up.", time.time())
    ran = kept("hook", "--inject", "--hook-format", "codex", as_=session)
    text = json.loads(ran.out)["hookSpecificOutput"]["additionalContext"]
    assert "Look up." in text
    assert work.id in text


def test_hook_format_with_nothing_to_add_prints_nothing(kept: Kept) -> None:
    session = kept.session()
    for provider in ("codex", "gemini", "antigravity", "claude"):
        for command in (("mail", "check"), ("hook",)):
            ran = kept(*command, "--inject", "--hook-format", provider, as_=session)
            assert ran == Ran(0, "", "")


def test_events_without_context_get_the_keys_they_accept() -> None:
    assert hook_object("event-context", "x", "Stop") == {"decision": "block", "reason": "x"}
    assert hook_object("event-context", "x", "PreCompact") == {"systemMessage": "x"}
