"""Runtimes: where the runs of sessions execute.

Other packages open runtimes here, by name, and use the protocol in `gascity.runtimes.port`. A
package can provide more of them with the entry point group `gascity.runtimes`: a callable without
parameters that returns a runtime.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gascity.runtimes.port import RunLogs, Runtime

PROCESS, TMUX = "process", "tmux"
INTERACTIVE = TMUX  # the built-in runtime with terminals
TERMINAL_VARIABLES = "TMUX"  # variables of the terminal that a process runs in begin like this

# Names from public cities. Their tmux is for sessions that a user talks to; here those always run
# in a terminal, so for headless runs it means the default.
_ALIASES = {"subprocess": PROCESS, "tmux": PROCESS, "": PROCESS}


def headless_runtime(configured: str) -> str:
    """Return the name of the runtime for headless runs, given the value of a `runtime` setting."""
    return _ALIASES.get(configured, configured)


def wants_terminal(session_setting: str | None) -> bool:
    """Return whether an agent's `session` setting asks for a terminal instead of headless runs."""
    return session_setting == TMUX


def open_runtime(name: str, root: str, environ: Mapping[str, str]) -> "Runtime":
    """Return the runtime with this name for the city at `root`. KeyError if none is installed."""
    if name == PROCESS:
        from gascity.runtimes.process import ProcessRuntime

        return ProcessRuntime()
    if name == TMUX:
        from gascity.runtimes.tmux import TmuxRuntime

        return TmuxRuntime(root, environ)
    for name_found, runtime in _installed(name):
        if name_found == name:
            return runtime
    raise KeyError(name)


def open_runtimes(root: str, environ: Mapping[str, str]) -> "dict[str, Runtime]":
    """Return all runtimes by name: the built-in ones and those that other packages provide."""
    builtin = {name: open_runtime(name, root, environ) for name in (PROCESS, TMUX)}
    return {**builtin, **dict(_installed())}


def runtime_names() -> frozenset[str]:
    """Return the names of all installed runtimes, without opening them."""
    from gascity.startup.entry_points import entry_points

    return frozenset((PROCESS, TMUX, *(name for name, _ in entry_points("gascity.runtimes"))))


def interactive_runtime(runtimes: "Mapping[str, Runtime]") -> str:
    """Return the name of the runtime for interactive sessions."""
    return next((name for name, runtime in runtimes.items() if runtime.interactive), INTERACTIVE)


def open_logs(name: str, root: str, environ: Mapping[str, str]) -> "RunLogs":
    """Return the logs of the runtime with this name. Does not open a built-in runtime."""
    return local_logs() if name in (PROCESS, TMUX) else open_runtime(name, root, environ).logs


def local_logs() -> "RunLogs":
    """Return the logs on this machine's disk, for a log whose run is no longer recorded."""
    from gascity.runtimes.logs import FileLogs

    return FileLogs()


def _installed(only: str = "") -> "Iterable[tuple[str, Runtime]]":
    from importlib.metadata import entry_points

    found = entry_points(group="gascity.runtimes")
    return ((entry.name, entry.load()()) for entry in found if only in ("", entry.name))
