"""Find the city, the user's XDG directories and programs on PATH. Imports only `os`."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing it from `typing` would take longer than a cached answer
if TYPE_CHECKING:
    from collections.abc import Mapping

CITY_FILE = "city.toml"
SELECTED = "selected"  # third field of a line in the register of rigs


class ForeignCityError(PermissionError):
    """The nearest city.toml belongs to another user, who could make this one run any program."""

    def __init__(self, root: str, owner: int) -> None:
        super().__init__(f"{root}/{CITY_FILE} belongs to user {owner}")
        self.root = root
        self.owner = owner


def find_root(start: str, environ: Mapping[str, str], chosen: str | None = None) -> str | None:
    """Return the root of the city: the chosen one, CITY_ROOT, the nearest above, or a rig's.

    A copy of city.toml in a worktree that a city created means that city, and the user may have
    selected another city for a rig that has its own (`city rig add --select`). Raises
    ForeignCityError if the nearest one above belongs to neither the caller nor root. A city that is
    named, or that the user registered for a rig, may belong to anyone.
    """
    named = chosen or environ.get("CITY_ROOT")
    if named:
        return os.path.normpath(os.path.join(start, named))
    directory = start
    while True:
        if os.path.exists(os.path.join(directory, CITY_FILE)):
            selected = _selected_city(start, directory, environ)
            if selected is not None:
                return selected
            root = _creator_of_worktree(directory, environ) or directory
            owner = _foreign_owner(root, environ)
            if owner is not None:
                raise ForeignCityError(root, owner)
            return root
        parent = os.path.dirname(directory)
        if parent == directory:
            return rig_root(start, environ)
        directory = parent


def _selected_city(start: str, root: str, environ: Mapping[str, str]) -> str | None:
    """Return the city that the user selected for a rig around `start`, at or below the root."""
    start, root = os.path.realpath(start), os.path.realpath(root)
    best = ("", "")
    for rig, city, selected in registered_rigs(environ):
        inside = start == rig or start.startswith(rig + "/")
        if selected and inside and len(rig) >= len(root) and _is_city(city):
            best = max(best, (rig, city), key=lambda pair: len(pair[0]))
    return best[1] or None


def _is_city(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, CITY_FILE))


def _creator_of_worktree(directory: str, environ: Mapping[str, str]) -> str | None:
    """Return the root of the city whose ledger records the worktree around a directory.

    None if the directory is in no worktree, or a user created it.
    """
    directory = os.path.realpath(directory)
    worktree = git_top(directory)
    repository = main_repository(worktree) if worktree else None
    if worktree is None or repository is None:
        return None
    candidates = [
        worktree.partition("/.gc/")[0],
        os.path.normpath(repository + directory.removeprefix(worktree)),
        rig_root(repository, environ),
    ]
    for root in candidates:
        if root and root != directory and os.path.exists(os.path.join(root, CITY_FILE)):
            name = worktree.removeprefix(os.path.realpath(root) + "/")
            if os.path.exists(f"{root}/.gc/ledger/{path_key(name)}.json"):
                return root
    return None


def git_top(directory: str) -> str | None:
    """Return the nearest directory at or above this one that has a `.git` entry."""
    while not os.path.lexists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent
    return directory


def main_repository(worktree: str) -> str | None:
    """Return the repository that a linked worktree belongs to; None for any other directory.

    Reads the `.git` file instead of asking git, because this runs before any command.
    """
    try:
        with open(os.path.join(worktree, ".git"), encoding="utf-8", errors="surrogateescape") as f:
            line = f.readline(4096).rstrip("\n")
    except OSError:  # also if `.git` is a directory
        return None
    git_dir = os.path.normpath(os.path.join(worktree, line.removeprefix("gitdir: ")))
    common, mark, _ = git_dir.rpartition("/.git/worktrees/")
    return common if mark and line.startswith("gitdir: ") else None


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
    """Return the city of the rig that contains `start`, the innermost if rigs are nested.

    A worktree of a rig counts as the rig.
    """
    best: tuple[int, str] | None = None
    start = os.path.realpath(start)
    worktree = git_top(start)
    start = (main_repository(worktree) if worktree else None) or start
    for rig, city in known_rigs(environ):
        if (start == rig or start.startswith(rig + "/")) and os.path.exists(f"{city}/{CITY_FILE}"):
            best = max(best, (len(rig), city)) if best else (len(rig), city)
    return best[1] if best else None


def rig_register(environ: Mapping[str, str]) -> str:
    """Return the file that maps rig directories to cities, one per line."""
    return os.path.join(state_home(environ), "gascity", "rigs")


def known_rigs(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the registered rig directories, each with the root of its city."""
    return [(rig, city) for rig, city, _ in registered_rigs(environ)]


def registered_rigs(environ: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """Return the registered rigs: directory, city, and whether it wins over a nearer city.toml."""
    try:
        with open(rig_register(environ), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    rows = (line.split("\t") for line in lines)
    return [
        (row[0], row[1], row[2:] == [SELECTED])
        for row in rows
        if row[0].startswith("/") and row[1:] and row[2:] in ([], [SELECTED])
    ]


def city_register(environ: Mapping[str, str]) -> str:
    """Return the file that lists the cities that the user created, one per line."""
    return os.path.join(state_home(environ), "gascity", "cities")


def known_cities(environ: Mapping[str, str]) -> list[str]:
    """Return the cities that the user created or added rigs to, as far as they still exist."""
    try:
        with open(city_register(environ), encoding="utf-8", errors="surrogateescape") as file:
            created = file.read().splitlines()
    except OSError:
        created = []
    roots = dict.fromkeys([*created, *(city for _, city in known_rigs(environ))])
    return [root for root in roots if root.startswith("/") and _is_city(root)]


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
