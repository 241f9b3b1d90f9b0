"""Runs `city` commands for the page, each in a process of its own.

The page shows what a command prints as JSON, and an action is the command that the page shows. The
process has the environment of `city web`, so it is the user who calls.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple

PASSWORD_VARIABLE = "CITY_WEB_TOKEN"
_PROGRAM = (sys.executable, "-P", "-m", "gascity")
_PARALLEL = 4  # processes at a time
_TIMEOUT = 120.0
_LARGEST = 8 << 20  # bytes of output; the rest is not for a page
_CHUNK = 1 << 16


class Printed(NamedTuple):
    """The exit code and the output of a command; `cut` if there was too much of it."""

    code: int
    output: str
    errors: str
    cut: bool = False

    @property
    def lines(self) -> list[str]:
        """Everything that it printed."""
        return [*self.output.splitlines(), *self.errors.splitlines()]


class Answer(NamedTuple):
    """The JSON object of a command, and the problems of one that failed."""

    value: Mapping[str, Any]
    problems: Sequence[Mapping[str, Any]]
    failed: bool

    @property
    def message(self) -> str:
        """The first error, in one line."""
        return next((str(problem["message"]) for problem in self.problems), "")


def shown_command(*arguments: str) -> str:
    """Return a command line as a user types it."""
    return " ".join(("city", *map(quote, arguments)))


def searched_command(words: Sequence[str], *arguments: str) -> str:
    """Return the command line of a list that is filtered by words."""
    searches = (f" | grep -iF {quote(word)}" for word in words if not word.startswith("-"))
    return shown_command(*arguments) + "".join(searches)


class Commands:
    """Runs commands on one city."""

    def __init__(self, root: str, cwd: str, environ: Mapping[str, str]) -> None:
        self._cwd = cwd
        # A controller that a command starts passes its environment on to agents.
        self._environ = {key: value for key, value in environ.items() if key != PASSWORD_VARIABLE}
        # Named here and not by `--city`, so that the answer cache works.
        self._environ |= {"CITY_ROOT": root, "NO_COLOR": "1", "COLUMNS": "100"}
        self._slots = asyncio.Semaphore(_PARALLEL)

    async def run(self, *arguments: str, text: str = "", cwd: str = "/") -> Printed:
        """Run a command with a text on its standard input.

        Outside of all rigs, so that an agent's name means that agent and not one of a rig.
        """
        async with self._slots:
            process = await asyncio.create_subprocess_exec(
                *_PROGRAM,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=cwd,
                env=self._environ,
            )
            try:
                return await asyncio.wait_for(_communicate(process, text), _TIMEOUT)
            except TimeoutError:
                message = f"`{shown_command(*arguments)}` takes too long; it was stopped"
                return Printed(1, "", message)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def act(self, *arguments: str, text: str = "") -> Printed:
        """Run a command where the user started the page, as the user would type it there."""
        return await self.run(*arguments, text=text, cwd=self._cwd)

    async def json(self, *arguments: str) -> Answer:
        """Run a command with `--json`."""
        return to_answer(await self.run(*arguments, "--json"))


def to_answer(printed: Printed) -> Answer:
    """Return the JSON object that a command printed."""
    try:
        value = json.loads(printed.output)
    except ValueError:
        message = printed.errors.strip() or "the answer could not be read"
        if printed.cut:
            message = "the answer is too large for a page; run the command instead"
        return Answer({}, [{"severity": "error", "code": "", "message": message}], True)
    errors = [each for each in value.get("problems", ()) if each["severity"] == "error"]
    return Answer(value, errors if printed.code else (), bool(printed.code))


async def _communicate(process: asyncio.subprocess.Process, text: str) -> Printed:
    assert process.stdin is not None  # pipes were requested
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(text.encode())
    process.stdin.close()
    (output, cut), (errors, _) = await asyncio.gather(
        _read(process.stdout, process), _read(process.stderr, process)
    )
    code = await process.wait()
    return Printed(code, output.decode(errors="replace"), errors.decode(errors="replace"), cut)


async def _read(
    stream: asyncio.StreamReader, process: asyncio.subprocess.Process
) -> tuple[bytes, bool]:
    """Return what a process writes, and whether it was stopped because that is too much."""
    pieces, size = [], 0
    while piece := await stream.read(_CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > _LARGEST:
            if process.returncode is None:
                process.kill()
            return b"".join(pieces), True
    return b"".join(pieces), False
