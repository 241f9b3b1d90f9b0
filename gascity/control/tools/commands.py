"""Tools that are commands: each call runs `city … --json` and returns its JSON.

The command runs in a process of its own, as the caller. It applies the same rules as when the agent
calls it in a shell, and this server, which runs alongside every session, stays small.
"""

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gascity.control.tools.scope import problem_of
from gascity.control.tools.types import ToolCall
from gascity.mcp.jsonrpc import INTERNAL_ERROR, RpcError
from gascity.model.problems import CityError
from gascity.model.values import TableView, as_list

if TYPE_CHECKING:
    from subprocess import Popen

LIMIT = 20  # rows of a list: a model reads all of them
_PARALLEL = 4  # commands at one time; the others wait
_TIMEOUT = 60.0  # seconds
_slots = threading.BoundedSemaphore(_PARALLEL)


def run_command(
    command: str, *positional: str, limit: int | None = None, stdin: str = "", **options: str
) -> Callable[[ToolCall], Mapping[str, object]]:
    """Return the function of a tool that is a command.

    `positional` are its arguments in order, `options` the flag of each other argument: a true one
    is passed alone, a list once for each item. With `limit`, the command has `--limit`, and this is
    its default. The argument `stdin` is passed by `--stdin`: it may be longer than a word of a
    command line.
    """
    flags = options if limit is None else {**options, "limit": "--limit"}

    def run(call: ToolCall) -> Mapping[str, object]:
        given = call.arguments if limit is None else {"limit": limit, **call.arguments}
        words = command.split()
        for name, option in flags.items():
            words += _option_words(option, given.get(name))
        words += [*(["--stdin"] if stdin else []), "--json", "--"]
        words += (str(given[name]) for name in positional if given.get(name) is not None)
        return _output(call, words, str(given[stdin]) if stdin else "")

    return run


def _option_words(option: str, value: object) -> list[str]:
    """Return an option with its value in one word, so that no value is read as an option."""
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    return [f"{option}={each}" for each in as_list(value, [value])]


def _output(call: ToolCall, words: Sequence[str], text: str) -> Mapping[str, object]:
    """Run a command as the caller and return its JSON; CityError if it fails.

    `text` is its standard input.
    """
    from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

    server = call.server
    with _slots:
        process = Popen(
            [sys.executable, "-P", "-m", "gascity", "--city", server.root, *words],
            stdin=PIPE if text else DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=dict(server.environ),
            cwd=server.directory,
        )
        call.request.on_cancel(lambda _: _kill(process))
        try:
            output, _ = process.communicate(text.encode() or None, timeout=_TIMEOUT)
        except TimeoutExpired:
            _kill(process)
            process.communicate()
            message = f"`city {words[0]}` did not end within {_TIMEOUT:g} seconds"
            raise RpcError(INTERNAL_ERROR, message) from None
    return _parsed(output, process.returncode)


def _kill(process: "Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()


def _parsed(output: bytes, code: int) -> Mapping[str, object]:
    try:
        answer = TableView(json.loads(output))
    except ValueError:
        raise RpcError(INTERNAL_ERROR, f"the command failed with status {code}") from None
    problems = answer.tables("problems")
    if code and problems:
        raise CityError(*map(problem_of, problems))
    return answer.values
