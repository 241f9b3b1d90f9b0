"""`gc hook run`: runs one command of a provider's hook with a timeout.

Providers wait for their hooks. The command therefore runs as a child that can be killed, and its
output is printed only when it is complete: half of a text would become part of a conversation.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import click

from gascity.cli.output import print_stderr, write_content
from gascity.model.values import format_duration, parse_duration
from gascity.paths import which

_SECONDS = 15.0
_TIMED_OUT = 124
_PROGRAM = 'import sys; sys.argv[0] = "gc"; import gascity.__main__ as m; m.main()'


class HookRun(NamedTuple):
    """A command line of `gc hook run`. `prefixed`: the command was written with `gc` before it."""

    command: tuple[str, ...]
    prefixed: bool = False
    timeout: float = _SECONDS
    timeout_exit_code: int = _TIMED_OUT


def parse_hook_run(arguments: Sequence[str]) -> HookRun:
    """Parse `[--timeout T] [--timeout-exit-code N] -- COMMAND…`; UsageError if it is invalid."""
    parsed = HookRun(())
    words = list(arguments)
    while words and words[0].startswith("-"):
        name, joined, value = words.pop(0).partition("=")
        if name == "--":
            break
        if not joined:
            value = words.pop(0) if words else ""
        if name == "--timeout":
            seconds = parse_duration(value)
            if seconds is None:
                raise click.UsageError(f"`--timeout {value}` is not a duration such as 15s")
            parsed = parsed._replace(timeout=seconds or _SECONDS)
        elif name == "--timeout-exit-code":
            if not value.isdecimal() or int(value) > 255:
                raise click.UsageError(f"`--timeout-exit-code {value}` is not an exit code")
            parsed = parsed._replace(timeout_exit_code=int(value))
        else:
            raise click.UsageError(f"no such option of `gc hook run`: {name}")
    if words[:1] in (["gc"], ["city"]):
        del words[0]
        parsed = parsed._replace(prefixed=True)
    if not words:
        raise click.UsageError("`gc hook run` needs a command after `--`")
    return parsed._replace(command=tuple(words))


def hook_argv(
    hook: HookRun, options: Sequence[str], commands: Collection[str], environ: Mapping[str, str]
) -> list[str]:
    """Return what to execute: a command of `gc` with these options, or any other program."""
    name = hook.command[0]
    program = None if hook.prefixed or name in commands else which(name, environ)
    if program is not None:
        return [program, *hook.command[1:]]
    return [sys.executable, "-P", "-c", _PROGRAM, *options, *hook.command]


def run_hook(hook: HookRun, argv: Sequence[str]) -> int:
    """Run the command and return its exit code, or that for a timeout."""
    child = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        start_new_session=True,  # so that what it starts is killed with it
    )
    try:
        output, _ = child.communicate(timeout=hook.timeout)
    except subprocess.TimeoutExpired:
        _kill(child)
        print_stderr(f"gc hook run: timed out after {format_duration(hook.timeout)}")
        return hook.timeout_exit_code
    except KeyboardInterrupt:
        _kill(child)
        raise
    write_content(output.decode("utf-8", "surrogateescape"))
    return child.returncode if child.returncode >= 0 else 1


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """Kill the command with everything it started; one that cannot die is left behind."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(1)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
