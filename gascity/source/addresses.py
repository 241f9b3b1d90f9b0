"""How a server is reached: the file its command means, its address, its variables and headers."""

import os
import re
from collections.abc import Iterator, Mapping

from gascity.model.problems import Place, Problem, warning
from gascity.model.references import names_in, written
from gascity.source.disk import Disk, is_below

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
# Compiled when there is something to match: most servers have neither address nor headers.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"
_VARIABLE = r"[^\s=\0-\x1f\x7f]+\Z"
_ADDRESS = r"https?://(?:[^/?#\s]*@)?(?:\[[^\]\s]+\]|[^/?#:@\s\[\]]+)(?::[^/?#\s]+)?(?:[/?#]\S*)?\Z"


def seconds(duration: str) -> float:
    """A duration as settings write it; nothing for what is none."""
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+", duration):
        return 0
    pieces = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", duration)
    return sum(float(count) * _UNITS[unit] for count, unit in pieces)


def find_command(disk: Disk, command: str, file: str, pack: str) -> tuple[str, list[Problem]]:
    """The command as it is started from anywhere: a bare word of PATH, or an absolute path.

    One that begins with a reference is known only at launch, and stays as it is.
    """
    place = Place(file, ("command",), of_value=True)
    if "/" not in command or names_in(command):
        return command, []
    if command.startswith("/") and not command.startswith("//"):
        return command, _not_executable(command, place) if disk.exists(command) else []
    tried = _places(disk, command, file, disk.absolute(pack))
    inside = [path for root, path in tried if is_below(path, root)]
    if not inside:
        words = f"`command` leads out of {'the city' if pack == '.' else pack}"
        way_out = "keep the program inside the pack, or on PATH"
        return command, [Problem("path-leaves-pack", words, place, way_out)]
    for path in inside:
        if disk.exists(path) and not disk.is_directory(path):
            return written(path), _not_executable(path, place)
    shown = " and ".join(dict.fromkeys(disk.shown(path) for path in inside))
    hint = "arguments go into `args`" if " " in command else None
    return command, [
        Problem("missing-command", f"`command` was looked for at {shown}", place, hint)
    ]


def _places(disk: Disk, command: str, file: str, pack: str) -> list[tuple[str, str]]:
    """Where a relative command may be: what it must stay inside, and the path."""
    here = os.path.dirname(disk.absolute(file))
    if command.startswith("//"):
        return [(disk.root, os.path.normpath(os.path.join(disk.root, command.lstrip("/"))))]
    roots = [here] if command.startswith(("./", "../")) else [pack, here]
    return [(pack, os.path.normpath(os.path.join(root, command))) for root in roots]


def _not_executable(path: str, place: Place) -> list[Problem]:
    if os.access(path, os.X_OK):
        return []
    words = f"`{os.path.basename(path)}` may not be executed"
    return [warning("not-executable", words, place, f"chmod +x {path}")]


def check_names(file: str, values: Mapping[str, object]) -> Iterator[Problem]:
    """Variables and headers that no system and no protocol would take."""
    # Placed at the table: the line of a single one would show its value.
    for key, pattern, what in (("env", _VARIABLE, "variable"), ("headers", _TOKEN, "header")):
        table = values.get(key)
        for name, value in table.items() if isinstance(table, dict) else ():
            if not re.match(pattern, name):
                words = f"`{name}` cannot be a {what}'s name"
                yield Problem("bad-name", words, Place(file, (key,)))
            elif key == "headers" and any(char in value for char in "\r\n"):
                words = f"the header `{name}` has a line break in it"
                yield Problem("bad-value", words, Place(file, (key,)), "a header is one line")


def check_address(file: str, url: object) -> Iterator[Problem]:
    """An address needs a scheme and a host; a reference may stand for either."""
    if not isinstance(url, str) or not url.strip() or url.startswith("${"):
        return
    if not re.match(_ADDRESS, re.sub(r"\$\{\w+\}", "0", url), re.I):
        yield Problem(
            "bad-url",
            "`url` is not the address of a server",
            Place(file, ("url",), of_value=True),
            "write http:// or https://, then a host",
        )
