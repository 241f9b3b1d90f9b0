"""Find the city, the user's XDG directories and programs on PATH. Imports only `os`."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing it from `typing` would take longer than a cached answer
if TYPE_CHECKING:
    from collections.abc import Mapping

CITY_FILE = "city.toml"


class ForeignCityError(PermissionError):
    """The nearest city.toml belongs to another user, who could make this one run any program."""

    def __init__(self, root: str, owner: int) -> None:
        super().__init__(f"{root}/{CITY_FILE} belongs to user {owner}")
        self.root = root
        self.owner = owner


def find_root(start: str, environ: Mapping[str, str], chosen: str | None = None) -> str | None:
    """Return the root of the city: the chosen one, CITY_ROOT, the nearest above, or a rig's.

    Raises ForeignCityError if the nearest one above belongs to neither the caller nor root. A city
    that is named, or that the user registered for a rig, may belong to anyone.
    """
    named = chosen or environ.get("CITY_ROOT")
    if named:
        return os.path.normpath(os.path.join(start, named))
    directory = start
    while True:
        if os.path.exists(os.path.join(directory, CITY_FILE)):
            owner = _foreign_owner(directory, environ)
            if owner is not None:
                raise ForeignCityError(directory, owner)
            return directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return rig_root(start, environ)
        directory = parent


def _foreign_owner(root: str, environ: Mapping[str, str]) -> int | None:
    """Return who owns the city if it is neither the caller nor root.

    The link itself counts, not its target: in a directory that all may write, a link to a file of
    the caller's would otherwise turn everything beside it into a trusted city.
    """
    trusted = {0, os.geteuid()}
    sudo = environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and sudo.isdecimal():
        trusted.add(int(sudo))
    for status in (os.lstat(os.path.join(root, CITY_FILE)), os.stat(root)):
        if status.st_uid not in trusted:
            return status.st_uid
    return None


def rig_root(start: str, environ: Mapping[str, str]) -> str | None:
    """Return the city of the rig that contains `start`, the innermost if rigs are nested."""
    best: tuple[int, str] | None = None
    start = os.path.realpath(start)
    for rig, city in known_rigs(environ):
        if (start == rig or start.startswith(rig + "/")) and os.path.exists(f"{city}/{CITY_FILE}"):
            best = max(best, (len(rig), city)) if best else (len(rig), city)
    return best[1] if best else None


def rig_register(environ: Mapping[str, str]) -> str:
    """Return the file that maps rig directories to cities, one per line."""
    return os.path.join(state_home(environ), "gascity", "rigs")


def known_rigs(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the registered rig directories, each with the root of its city."""
    try:
        with open(rig_register(environ), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    pairs = (line.split("\t") for line in lines)
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2 and pair[0].startswith("/")]


def state_home(environ: Mapping[str, str]) -> str:
    """Return the user's state directory."""
    return _home(environ, "XDG_STATE_HOME", ".local/state")


def config_home(environ: Mapping[str, str]) -> str:
    """Return the user's configuration directory."""
    return _home(environ, "XDG_CONFIG_HOME", ".config")


def cache_home(environ: Mapping[str, str]) -> str:
    """Return the user's cache directory."""
    return _home(environ, "XDG_CACHE_HOME", ".cache")


def _home(environ: Mapping[str, str], name: str, default: str) -> str:
    """Return the directory in a variable, else the default; the XDG specification requires
    relative paths to be ignored."""
    named = environ.get(name, "")
    return named if named.startswith("/") else os.path.join(environ.get("HOME", "/"), default)


def make_state(root: str) -> None:
    """Create the city's state directory `.gc`, ignored by git and closed to other users.

    It holds prompts, logs and working directories. One that an older version left open is closed.
    """
    state = os.path.join(root, ".gc")
    try:
        status = os.stat(state)
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.chmod(state, status.st_mode & 0o700)
    except FileNotFoundError:
        os.makedirs(root, exist_ok=True)
        os.makedirs(state, mode=0o700, exist_ok=True)
        with open(os.path.join(state, ".gitignore"), "w", encoding="utf-8") as file:
            file.write("*\n")


def which(program: str, environ: Mapping[str, str], directory: str = "") -> str | None:
    """Return the path of an executable file, or None.

    A bare name is looked up on PATH; a name with a slash is relative to `directory`. This is
    not `shutil.which`, whose import costs more than the look-up and which reads the PATH of
    this process instead of the one passed in.
    """
    if not program:
        return None
    search = [""] if "/" in program else environ.get("PATH", os.defpath).split(os.pathsep)
    for place in search:  # an empty entry of PATH means the current directory
        path = os.path.join(place or directory, program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def path_key(path: str) -> str:
    """Return a short hash of a path for use in a file name."""
    from hashlib import sha256

    return sha256(os.fsencode(path)).hexdigest()[:16]
