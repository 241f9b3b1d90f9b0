"""A runtime without processes: it interprets `echo`, `exit` and `sleep` in memory.

It stands for a runtime on another machine: its runs have no pid, its logs are no files, and its
handles hold nothing but a number.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gascity.model.screen import TerminalScreen
from gascity.runtimes.port import (
    Attachment,
    InputLine,
    Leftover,
    RunHandle,
    RunLogs,
    RunSpec,
    RunState,
    RunStatus,
)

if TYPE_CHECKING:
    from gascity.runtimes.port import Runtime


class MemoryRun:
    """A run of the machine."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.status = RunStatus(RunState.HELD, ran=False)
        self.exit_fds: list[int] = []

    @property
    def over(self) -> bool:
        return self.status.state in (RunState.EXITED, RunState.GONE)


class Machine:
    """The runs and logs, which outlive every runtime object."""

    def __init__(self) -> None:
        self.runs: dict[str, MemoryRun] = {}
        self.texts: dict[str, bytes] = {}

    def execute(self, run: MemoryRun) -> None:
        run.status = RunStatus(RunState.RUNNING)
        program, *arguments = run.spec.argv
        assert program.endswith("sh")
        script = arguments[1] if arguments[0] == "-c" else Path(arguments[-1]).read_text()
        for command in script.strip().split("; "):
            word, _, rest = command.partition(" ")
            if word == "echo":
                self.texts[run.spec.log] += f"{rest}\n".encode()
            elif word == "exit":
                self.end(run, int(rest))
                return
            elif word == "sleep":
                return
        self.end(run, 0)

    def end(self, run: MemoryRun, code: int | None) -> None:
        if run.over:
            return
        if run.status.state == RunState.HELD or code is None:
            run.status = RunStatus(RunState.GONE, ran=run.status.ran)
        else:
            run.status = RunStatus(RunState.EXITED, code)
        for fd in run.exit_fds:
            os.eventfd_write(fd, 1)


class MemoryLogs:
    """Logs as texts by name."""

    def __init__(self, texts: dict[str, bytes]) -> None:
        self._texts = texts

    def size(self, log: str) -> int | None:
        return len(self._texts[log]) if log in self._texts else None

    def read(self, log: str) -> Iterator[bytes]:
        yield from self._texts.get(log, b"").splitlines(keepends=True)

    def read_from(self, log: str, offset: int) -> tuple[bytes, int]:
        piece = self._texts.get(log, b"")[offset:]
        return piece, offset + len(piece)

    def tail(self, log: str, lines: int) -> str:
        text = self._texts.get(log, b"").decode()
        return "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""

    def truncate(self, log: str, limit: int) -> int:
        text = self._texts.get(log, b"")
        cut = max(0, len(text) - limit)
        if cut:
            self._texts[log] = text[cut:]
        return cut

    def delete(self, log: str) -> None:
        self._texts.pop(log, None)


class MemoryRuntime:
    """`Runtime` on a machine in memory."""

    name = "memory"
    interactive = False

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.logs: RunLogs = MemoryLogs(machine.texts)

    def missing_requirement(self) -> str:
        return ""

    def spawn(self, spec: RunSpec) -> RunHandle:
        key = f"run-{len(self._machine.runs) + 1}"
        self._machine.runs[key] = MemoryRun(spec)
        self._machine.texts.setdefault(spec.log, b"")
        return RunHandle(
            name=key,
            exit_file=spec.exit_file,
            log=spec.log,
            session=spec.session,
            generation=spec.generation,
        )

    def _run(self, handle: RunHandle) -> MemoryRun:
        return self._machine.runs[handle.name]

    def release(self, handle: RunHandle) -> None:
        if self._run(handle).status.state == RunState.HELD:
            self._machine.execute(self._run(handle))

    def exit_fd(self, handle: RunHandle) -> int | None:
        run = self._run(handle)
        if run.over:
            return None
        run.exit_fds.append(os.eventfd(0, os.EFD_CLOEXEC))
        return run.exit_fds[-1]

    def status(self, handle: RunHandle) -> RunStatus:
        return self._run(handle).status

    def interrupt(self, handle: RunHandle) -> None:
        self._machine.end(self._run(handle), 130)

    def terminate(self, handle: RunHandle) -> None:
        self._machine.end(self._run(handle), 143)

    def kill(self, handle: RunHandle) -> None:
        self._machine.end(self._run(handle), None)

    def kill_all(self, handles: Sequence[RunHandle]) -> None:
        for handle in handles:
            self.kill(handle)

    def leftovers(self, handles: Sequence[RunHandle]) -> Mapping[RunHandle, Sequence[Leftover]]:
        return dict.fromkeys(handles, ())

    def forget(self, handle: RunHandle) -> None:
        if self._run(handle).over:
            self._run(handle).status = RunStatus(RunState.GONE)

    def peek(self, handle: RunHandle, lines: int) -> str:
        return self.logs.tail(handle.log, lines)

    def screen(self, handle: RunHandle) -> TerminalScreen | None:  # noqa: ARG002
        return None

    def type_text(
        self,
        handle: RunHandle,  # noqa: ARG002
        text: str,  # noqa: ARG002
        input_line: InputLine,  # noqa: ARG002
        id: str = "",  # noqa: ARG002
    ) -> bool:
        return False

    def attached(self, handle: RunHandle) -> bool | None:  # noqa: ARG002
        return False

    def attachment(
        self,
        handle: RunHandle,  # noqa: ARG002
        title: str,  # noqa: ARG002
        environ: Mapping[str, str],  # noqa: ARG002
    ) -> Attachment | None:
        return None

    def strays(self, root: str, known: Collection[RunHandle]) -> list[RunHandle]:
        names = {handle.name for handle in known}
        return [
            RunHandle(name=key, session=run.spec.session, generation=run.spec.generation)
            for key, run in self._machine.runs.items()
            if key not in names and not run.over and run.spec.env["CITY_ROOT"] == root
        ]

    def close(self) -> None:
        pass


if TYPE_CHECKING:

    def _implements_the_port(runtime: MemoryRuntime) -> Runtime:
        return runtime
