"""Ask a provider's own program what it loads in a directory, without starting a session."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.model.provider import Provider
from gascity.model.secrets import is_secret, mask_secrets, masked_line
from gascity.model.settings import ProviderListing
from gascity.model.values import as_list, as_table
from gascity.paths import which
from gascity.render.arguments import fill_placeholders

MCP, SKILLS, AGENTS = "mcp", "skills", "agents"

_KEYS: Mapping[str, Sequence[str]] = {  # possible keys in the JSON output
    MCP: ("mcpServers", "mcp", "servers"),
    SKILLS: ("skills",),
    AGENTS: ("agents", "agent"),
}
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+]\w[\w.]*)?")
_NAME = re.compile(r"""^name\s*[:=]\s*["']?([^"'\n]+)""", re.MULTILINE)
_MAX_OUTPUT = 8_000_000  # bytes
_HEAD = 4096  # characters of an agent file in which its name is looked for
_MAX_MESSAGE = 160  # characters of a program's error message


class Listing(NamedTuple):
    """The names that a program loads, and the reasons for those it has disabled.

    `names` is None if the program could not be asked, with the `reason`; `asked` is whether it
    was tried.
    """

    names: frozenset[str] | None
    reason: str = ""
    disabled: Mapping[str, str] = {}
    asked: bool = True


class _Output(NamedTuple):
    """Stdout and stderr of a command, and the error if it failed."""

    out: str
    err: str
    error: str = ""


class ProviderCli:
    """A provider's program in one directory; each of its listing commands is run once."""

    def __init__(
        self, provider: Provider, workdir: str, environ: Mapping[str, str], timeout: float
    ) -> None:
        self.provider = provider
        self.workdir = os.path.realpath(workdir)
        self.environ = environ
        self.timeout = timeout
        self._placeholders = {"workdir": self.workdir}
        self._outputs: dict[tuple[str, ...], _Output] = {}

    def version(self) -> tuple[str, str]:
        """Return the version of the program, or the reason why it is not known."""
        command = self.provider.facts.listing.version
        if not command:
            return "", ""
        output = self._run(command, ())
        match = _VERSION.search(output.out)
        if output.error or not match:
            return "", output.error or f"`{' '.join(command)}` printed no version"
        return match[0], ""

    def of(self, kind: str) -> Listing:
        """Return what is loaded of one kind: `mcp`, `skills` or `agents`."""
        facts = self.provider.facts.listing
        command, pattern, own = _commands(facts)[kind]
        if not command:
            program = f"`{self.provider.facts.command or self.provider.name}`"
            reason = f"{program} lists them only in a session"
            if kind == AGENTS and self.provider.facts.agents.needs_approval:
                reason += ", and ignores a new file until you approve it there"
            return Listing(None, reason, asked=False)
        output = self._run(command, self.provider.facts.trust.args)
        in_error = kind == AGENTS and facts.agents_in_error and bool(pattern)
        try:
            if output.error and not (in_error and _search(output, pattern or "")):
                return Listing(None, output.error)
            reasons = dict(
                _names_by_pattern(output, pattern) if pattern else _json_names(output.out, kind)
            )
        except re.error as error:
            return Listing(
                None, f"`listing.{kind}_pattern` is not a valid regular expression: {error}"
            )
        except ValueError:
            return Listing(None, f"`{' '.join(command)}` printed no JSON")
        loaded = frozenset(name for name, off in reasons.items() if not off and name not in own)
        return Listing(loaded, disabled={name: off for name, off in reasons.items() if off})

    def _run(self, command: Sequence[str], trust: Sequence[str]) -> _Output:
        program, *rest = command
        configured = self.provider.facts.command or ""
        if os.path.basename(configured) == program:  # the city may set the path of its own copy
            program = configured
        argv = tuple(fill_placeholders(arg, self._placeholders) for arg in (program, *trust, *rest))
        if argv not in self._outputs:
            self._outputs[argv] = self._run_uncached(argv, " ".join(command))
        return self._outputs[argv]

    def _run_uncached(self, argv: Sequence[str], shown: str) -> _Output:
        path = which(argv[0], self.environ, self.workdir)
        if path is None:
            return _Output("", "", f"`{argv[0]}` is not on PATH")
        env = self._environment()
        try:
            code, out, err = _output([path, *argv[1:]], self.workdir, env, self.timeout)
        except OSError as error:
            return _Output("", "", f"`{shown}` could not be run: {error.strerror}")
        if code is None:
            return _Output("", "", f"`{shown}` did not finish within {self.timeout:g} seconds")
        if code != 0:
            message = _last_line(err or out, env)
            return _Output(out, err, f"`{shown}` failed ({code}){message and ': '}{message}")
        return _Output(out, err)

    def _environment(self) -> dict[str, str]:
        env = {**self.environ, "NO_COLOR": "1", "TERM": "dumb"}
        facts = self.provider.facts
        for more in (facts.env, facts.trust.env, facts.mcp.env, facts.listing.env):
            for key, text in more.items():
                env[key] = fill_placeholders(text, self._placeholders)
        return env


_ListCommand = tuple[tuple[str, ...], str | None, tuple[str, ...]]


def _commands(facts: ProviderListing) -> dict[str, _ListCommand]:
    """Return for each kind the command that lists it, its output pattern, and built-in names."""
    return {
        "mcp": (facts.mcp, facts.mcp_pattern, facts.mcp_builtin),
        "skills": (facts.skills, facts.skills_pattern, facts.skills_builtin),
        "agents": (facts.agents, facts.agents_pattern, facts.agents_builtin),
    }


def agent_files(provider: Provider, workdir: str) -> list[frozenset[str]]:
    """Return the agent files in a directory, each as the names its provider may use for it."""
    from glob import glob

    directory, pattern = provider.facts.agents.directory, provider.facts.agents.pattern
    if not directory or not pattern:
        return []
    root = os.path.join(workdir, directory)
    return [
        frozenset(_agent_names(os.path.join(root, path), pattern))
        for path in sorted(glob(pattern, root_dir=root, recursive=True))
    ]


def _agent_names(path: str, pattern: str) -> Iterator[str]:
    yield os.path.basename(path).removesuffix(pattern.rpartition("*")[2])
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = _NAME.search(file.read(_HEAD))
    except OSError:
        return
    if match:
        yield match[1].strip()


def _search(output: _Output, pattern: str) -> list[re.Match[str]]:
    """Return the matches of a pattern in what a program printed; some print lists to stderr."""
    return [*re.finditer(pattern, f"{output.out}\n{output.err}", re.MULTILINE)]


def _names_by_pattern(output: _Output, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield names, and reasons why they are disabled, from a text."""
    for match in _search(output, pattern):
        groups = match.groupdict()
        names = groups.get("names")
        for name in (groups.get("name") or match[0],) if names is None else names.split(","):
            if name.strip():
                yield name.strip(), groups.get("off") or ""


def _json_names(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield names, and reasons why they are disabled, from JSON without built-in entries."""
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    value, _ = json.JSONDecoder().raw_decode(text, min(starts, default=0))
    match value:
        case dict():
            value = next((value[key] for key in _KEYS[kind] if key in value), {})
    entries = [*as_table(value).items(), *((None, item) for item in as_list(value))]
    for key, entry in entries:
        if key is None and isinstance(entry, str):
            yield entry, ""
        if isinstance(entry, Mapping) and not _is_builtin(entry):
            yield str(key if key is not None else entry.get("name", "")), _disabled_reason(entry)


def _is_builtin(entry: Mapping[str, object]) -> bool:
    for key in ("source", "scope", "location"):
        match entry.get(key):
            case str(word) | {"type": str(word)}:
                if word.strip("<>").replace("-", "") == "builtin":
                    return True
    return False


def _disabled_reason(entry: Mapping[str, object]) -> str:
    if entry.get("enabled") is False or entry.get("disabled") is True:
        return str(entry.get("disabled_reason") or "disabled")
    return ""


def _output(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], timeout: float
) -> tuple[int | None, str, str]:
    """Return exit code (None: timed out), stdout and stderr of a program without input."""
    import signal
    import subprocess
    import tempfile
    from contextlib import suppress

    # Files, not pipes: a process that the program leaves behind would keep a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**env, "PWD": cwd},  # some programs trust it more than the kernel
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(_TERMINAL.sub("", file.read(_MAX_OUTPUT).decode("utf-8", "replace")))
        return code, texts[0], texts[1]


def _last_line(text: str, env: Mapping[str, str]) -> str:
    """Return the last line of a program's output, without secrets."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    secrets = [value for key, value in env.items() if is_secret(key)]
    return masked_line(mask_secrets(lines[-1], secrets))[:_MAX_MESSAGE] if lines else ""
