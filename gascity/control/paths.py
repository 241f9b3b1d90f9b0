"""Where a controller and its sessions keep what is theirs, below `.gc/`."""

from __future__ import annotations


def lock_file(root: str) -> str:
    return f"{root}/.gc/controller.lock"


def run_directory(root: str) -> str:
    """Private: the socket, what runs are handed, and what they leave."""
    return f"{root}/.gc/run"


def socket_name() -> str:
    return "control.sock"


def log_directory(root: str) -> str:
    return f"{root}/.gc/logs"


def controller_log(root: str) -> str:
    return f"{root}/.gc/logs/controller.log"


def program_directory(root: str) -> str:
    """First on the PATH of every session."""
    return f"{root}/.gc/bin"


def stale_file(root: str) -> str:
    """Names agents whose definition is broken and whose last good one is in force, a line each."""
    return f"{root}/.gc/last-good/agents"


def run_log(root: str, session: str, generation: int) -> str:
    return f"{log_directory(root)}/{session}.{generation}.log"


def exit_file(root: str, session: str, generation: int) -> str:
    return f"{run_directory(root)}/{session}.{generation}.exit"


def handed(root: str, session: str, generation: int, name: str) -> str:
    """A file that one run is handed: a prompt, a script."""
    return f"{run_directory(root)}/{session}.{generation}.{name}"
