"""What a provider's own program says it loads in a directory, asked without starting a session."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.secrets import hidden_in, is_secret, masked_line
from gascity.render.launch import filled

MCP, SKILLS, AGENTS = "mcp", "skills", "agents"

_KEYS: Mapping[str, Sequence[str]] = {  # under which JSON has them
    MCP: ("mcpServers", "mcp", "servers"),
    SKILLS: ("skills",),
    AGENTS: ("agents", "agent"),
}
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+]\w[\w.]*)?")
_NAME = re.compile(r"""^name\s*[:=]\s*["']?([^"'\n]+)""", re.MULTILINE)
_MOST = 8_000_000  # characters of what a program prints
_HEAD = 4096  # characters of an agent file that may hold its name
_SHOWN = 160  # characters of a program's complaint


class Listed(NamedTuple):
    """What a program says it loads, and by name why it does not load the rest.

    Without `names` it could not be asked, for the `reason`; `asked` tells whether it was tried.
    """

    names: frozenset[str] | None
    reason: str = ""
    disabled: Mapping[str, str] = {}
    asked: bool = True


class _Said(NamedTuple):
    out: str
    err: str
    fault: str = ""


class Listings:
    """One provider's program in one directory; each of its commands is run once."""

    def __init__(
        self, provider: Provider, workdir: str, environ: Mapping[str, str], timeout: float
    ) -> None:
        self.provider = provider
        self.workdir = os.path.realpath(workdir)
        self.environ = environ
        self.timeout = timeout
        self._known = {"workdir": self.workdir}
        self._said: dict[tuple[str, ...], _Said] = {}

    def version(self) -> tuple[str, str]:
        """The version that the program says it has, or why it says none."""
        command = self.provider.strings("listing.version")
        if not command:
            return "", ""
        said = self._run(command, ())
        found = _VERSION.search(said.out)
        if said.fault or not found:
            return "", said.fault or f"`{' '.join(command)}` named no version"
        return found[0], ""

    def of(self, kind: str) -> Listed:
        """What is loaded of one kind: `mcp`, `skills` or `agents`."""
        command = self.provider.strings(f"listing.{kind}")
        if not command:
            return Listed(None, f"{self._called} shows them in a session only", asked=False)
        said = self._run(command, self.provider.strings("trust.args"))
        if said.fault:
            return Listed(None, said.fault)
        pattern = self.provider.text(f"listing.{kind}_pattern")
        try:
            found = dict(_lines(said, pattern) if pattern else _json(said.out, kind))
        except re.error as error:
            return Listed(None, f"`listing.{kind}_pattern` is no regular expression: {error}")
        except ValueError:
            return Listed(None, f"`{' '.join(command)}` printed no JSON")
        own = self.provider.strings(f"listing.{kind}_builtin")
        loaded = frozenset(name for name, off in found.items() if not off and name not in own)
        return Listed(loaded, disabled={name: off for name, off in found.items() if off})

    @property
    def _called(self) -> str:
        return f"`{self.provider.text('command') or self.provider.name}`"

    def _run(self, command: Sequence[str], trust: Sequence[str]) -> _Said:
        program, *rest = command
        written = self.provider.text("command")
        if os.path.basename(written) == program:  # a city may say where its own copy is
            program = written
        words = tuple(filled(one, self._known) for one in (program, *trust, *rest))
        if words not in self._said:
            self._said[words] = self._fresh(words, " ".join(command))
        return self._said[words]

    def _fresh(self, argv: Sequence[str], shown: str) -> _Said:
        path = find_program(argv[0], self.environ)
        if path is None:
            return _Said("", "", f"`{argv[0]}` is not on PATH")
        env = self._environment()
        try:
            code, out, err = _output([path, *argv[1:]], self.workdir, env, self.timeout)
        except OSError as error:
            return _Said("", "", f"`{shown}` could not be run: {error.strerror}")
        if code is None:
            return _Said("", "", f"`{shown}` did not end within {self.timeout:g} seconds")
        if code != 0:
            complaint = _last_line(err or out, env)
            return _Said("", "", f"`{shown}` failed ({code}){complaint and ': '}{complaint}")
        return _Said(out, err)

    def _environment(self) -> dict[str, str]:
        env = {**self.environ, "NO_COLOR": "1", "TERM": "dumb"}
        for name in ("env", "trust.env", "mcp.env", "listing.env"):
            for key, text in self.provider.pairs(name).items():
                env[key] = filled(text, self._known)
        return env


def find_program(command: str, environ: Mapping[str, str]) -> str | None:
    """Where a program is on PATH; a path of its own is taken as it is."""
    from shutil import which

    return which(command, path=environ.get("PATH", "")) if command else None


def agent_files(provider: Provider, workdir: str) -> list[frozenset[str]]:
    """The agent files in a directory, each by the names its provider may know it under."""
    from glob import glob

    directory, pattern = provider.text("agents.directory"), provider.text("agents.pattern")
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
            found = _NAME.search(file.read(_HEAD))
    except OSError:
        return
    if found:
        yield found[1].strip()


def _lines(said: _Said, pattern: str) -> Iterator[tuple[str, str]]:
    """Names in a text for people, some of which goes to stderr."""
    for found in re.finditer(pattern, f"{said.out}\n{said.err}", re.MULTILINE):
        groups = found.groupdict()
        yield groups.get("name") or found[0], groups.get("off") or ""


def _json(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """Names in a JSON text; what the program brings along itself is left out."""
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    value, _ = json.JSONDecoder().raw_decode(text, min(starts, default=0))
    if isinstance(value, Mapping):
        value = next((value[key] for key in _KEYS[kind] if key in value), {})
    entries = value.items() if isinstance(value, Mapping) else ((None, one) for one in value)
    for key, entry in entries:
        if isinstance(entry, Mapping) and not _is_builtin(entry):
            yield str(key if key is not None else entry.get("name", "")), _off(entry)


def _is_builtin(entry: Mapping[str, object]) -> bool:
    for key in ("source", "scope", "location"):
        value = entry.get(key)
        word = value.get("type") if isinstance(value, Mapping) else value
        if isinstance(word, str) and word.strip("<>").replace("-", "") == "builtin":
            return True
    return False


def _off(entry: Mapping[str, object]) -> str:
    if entry.get("enabled") is False or entry.get("disabled") is True:
        return str(entry.get("disabled_reason") or "disabled")
    return ""


def _output(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], timeout: float
) -> tuple[int | None, str, str]:
    """Exit code (None: it took too long), stdout and stderr of a program without input."""
    import signal
    import subprocess
    import tempfile
    from contextlib import suppress

    # Files, not pipes: some programs leave a process behind that would hold a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
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
            texts.append(_TERMINAL.sub("", file.read(_MOST).decode("utf-8", "replace")))
        return code, texts[0], texts[1]


def _last_line(text: str, env: Mapping[str, str]) -> str:
    """The last thing a program said, without secrets."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    secrets = [value for key, value in env.items() if is_secret(key)]
    return masked_line(hidden_in(lines[-1], secrets))[:_SHOWN] if lines else ""
