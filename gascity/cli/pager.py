"""Show long output in the user's pager on a terminal."""

import subprocess
import sys
from collections.abc import Iterable

from gascity.cli.context import CommandContext
from gascity.cli.output import print_stdout
from gascity.cli.terminal import output_bytes
from gascity.git import GitError
from gascity.git import run as run_git


def page(context: CommandContext, lines: Iterable[str]) -> None:
    """Print lines; on a terminal through git's pager, which is `less` unless the user chose one."""
    program = _pager(context) if sys.stdout.isatty() else ""
    if program in ("", "cat"):
        print_stdout(*lines)
        return
    environ = {"LESS": "FRX", "LV": "-c", **context.environ}  # as git sets them
    try:
        with subprocess.Popen(["sh", "-c", program], stdin=subprocess.PIPE, env=environ) as pager:
            pager.communicate(output_bytes(lines, raw=False))
    except KeyboardInterrupt:
        pager.wait()


def _pager(context: CommandContext) -> str:
    try:
        return run_git(["var", "GIT_PAGER"], context.cwd, context.environ).line
    except GitError:
        return ""
