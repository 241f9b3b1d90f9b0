"""Our own bugs: a short apology on the screen, everything else in a file."""

import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence

from gascity import __version__
from gascity.cli.context import Context
from gascity.cli.output import complain, say, to_json
from gascity.model.repositories import shown
from gascity.model.secrets import HIDDEN, is_secret
from gascity.places import find_root, state_home


def report_bug(error: Exception, arguments: Sequence[str], context: Context) -> int:
    """Write what is needed to mend it; the exit code is 3."""
    text = "\n".join(
        (
            f"city {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"arguments: {[_masked(one) for one in arguments]!r}",
            "",
            "".join(traceback.format_exception(error)),
        )
    )
    path = _write(text, context)
    message = f"this is a fault of ours, not yours: {type(error).__name__}: {error}"
    if context.as_json:
        problem = {
            "severity": "error",
            "code": "bug",
            "file": None,
            "line": None,
            "col": None,
            "message": message,
            "hint": f"the report is in {path}",
        }
        say(to_json({"problems": [problem]}))
        return 3
    complain(f"city: error: {message} [bug]")
    complain(f"  hint: the report is in {path}" if path else text)
    return 3


def _masked(argument: str) -> str:
    """`env.API_KEY=…`, `https://…@host`: what a person typed may hold a secret."""
    key, equals, _ = argument.partition("=")
    return f"{key}={HIDDEN}" if equals and is_secret(key) else shown(argument)


def _write(text: str, context: Context) -> str | None:
    root = find_root(context.cwd, context.environ, context.chosen)
    name = f"report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    homes = [os.path.join(root, ".gc", "reports")] if root else []
    homes += [os.path.join(state_home(context.environ), "gascity"), tempfile.gettempdir()]
    for home in homes:
        try:
            os.makedirs(home, exist_ok=True)
            path = os.path.join(home, name)
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return path
    print(text, file=sys.stderr)
    return None
