"""Paths of the controller and its sessions below `.gc/`."""

from __future__ import annotations


def lock_file(root: str) -> str:
    return f"{root}/.gc/controller.lock"


def run_directory(root: str) -> str:
    """Private directory of the socket and of temporary and exit files of runs."""
    return f"{root}/.gc/run"


def socket_name() -> str:
    return "control.sock"


def log_directory(root: str) -> str:
    return f"{root}/.gc/logs"


def controller_log(root: str) -> str:
    return f"{root}/.gc/logs/controller.log"


def program_directory(root: str) -> str:
    """Directory of the `city` and `gc` wrappers, first on the PATH of every session."""
    return f"{root}/.gc/bin"


def stale_file(root: str) -> str:
    """File with the names of agents that use their last valid definition, one per line."""
    return f"{root}/.gc/last-good/agents"


def run_log(root: str, session: str, generation: int) -> str:
    return f"{log_directory(root)}/{session}.{generation}.log"


def exit_file(root: str, session: str, generation: int) -> str:
    return f"{run_directory(root)}/{session}.{generation}.exit"


def handed(root: str, session: str, generation: int, name: str) -> str:
    """Temporary file for one run, such as a prompt or a script."""
    return f"{run_directory(root)}/{session}.{generation}.{name}"
