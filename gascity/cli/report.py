"""Bug reports: one line on the screen, the traceback in a file."""

import os
import platform
import tempfile
import time
import traceback
from collections.abc import Sequence

from gascity import __version__
from gascity.cli.context import CommandContext, print_failure
from gascity.cli.output import print_stderr
from gascity.files import create_file
from gascity.model.problems import Problem
from gascity.model.repositories import shown
from gascity.model.secrets import HIDDEN, is_secret
from gascity.paths import find_root, state_home


def report_bug(error: Exception, arguments: Sequence[str], context: CommandContext) -> int:
    """Write a report file, print where it is, and return exit code 3."""
    text = "\n".join(
        (
            f"city {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"arguments: {[_masked(argument) for argument in arguments]!r}",
            "",
            "".join(traceback.format_exception(error)),
        )
    )
    path = _write(text, context)
    message = f"internal error (this is a bug in city): {type(error).__name__}: {error}"
    hint = f"attach {path} to your bug report" if path else None
    print_failure(context, [Problem("bug", message, None, hint)])
    if path is None and not context.as_json:
        print_stderr(*text.split("\n"))
    return 3


def _masked(argument: str) -> str:
    """Hide secrets in an argument: `env.API_KEY=…`, `https://…@host`."""
    key, equals, _ = argument.partition("=")
    return f"{key}={HIDDEN}" if equals and is_secret(key) else shown(argument)


def _write(text: str, context: CommandContext) -> str | None:
    try:
        root = find_root(context.cwd, context.environ, context.city_option)
    except OSError:
        root = None
    name = f"report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    directories = [os.path.join(root, ".gc", "reports")] if root else []
    directories += [os.path.join(state_home(context.environ), "gascity"), tempfile.gettempdir()]
    for directory in directories:
        try:
            path = os.path.join(directory, name)
            create_file(path, text.encode("utf-8", "backslashreplace"))
        except OSError:
            continue
        return path
    return None
