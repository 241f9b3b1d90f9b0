"""Opens the user's editor at a line of a file."""

import os
import subprocess
from shlex import split

from gascity.cli.context import CommandContext
from gascity.cli.problems import city_error

# How editors take a line; all others take `+LINE FILE`, as vi does.
_GOTO = {name: ("--goto", "{file}:{line}") for name in ("code", "codium", "cursor", "windsurf")}
_COLON = {name: ("{file}:{line}",) for name in ("subl", "zed", "hx", "helix")}
_LINE_ARGUMENTS = {**_GOTO, **_COLON}


def open_editor(context: CommandContext, file: str, line: int | None) -> int:
    """Run $VISUAL or $EDITOR, and return its exit code; CityError if it cannot be run."""
    editor = context.environ.get("VISUAL") or context.environ.get("EDITOR") or ""
    words = split(editor)
    if not words:
        raise city_error("missing-program", "no editor is configured", "set $EDITOR")
    form = _LINE_ARGUMENTS.get(os.path.basename(words[0]), ("+{line}", "{file}"))
    arguments = [word.format(file=file, line=line) for word in form] if line else [file]
    try:
        done = subprocess.run([*words, *arguments], env=dict(context.environ), cwd=context.root)
    except OSError as error:
        message = f"cannot run `{words[0]}`: {error.strerror}"
        raise city_error("missing-program", message, "set $EDITOR") from error
    return done.returncode
