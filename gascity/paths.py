"""Where a city is found and where this machine keeps what is not part of it. Imports only `os`."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing `typing` for its own would take longer than the answer
if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "city.toml"


def find_root(start: str, environ: Mapping[str, str], chosen: str | None = None) -> str | None:
    """The city a command is about: the one named, CITY_ROOT, the nearest above, or a rig's."""
    named = chosen or environ.get("CITY_ROOT")
    if named:
        return os.path.normpath(os.path.join(start, named))
    here = start
    while True:
        if os.path.exists(os.path.join(here, MARK)):
            return here
        above = os.path.dirname(here)
        if above == here:
            return rig_root(start, environ)
        here = above


def rig_root(start: str, environ: Mapping[str, str]) -> str | None:
    """The city of the rig that `start` lies in, the innermost if rigs are nested."""
    best: tuple[int, str] | None = None
    start = os.path.realpath(start)
    for rig, city in known_rigs(environ):
        if (start == rig or start.startswith(rig + "/")) and os.path.exists(f"{city}/{MARK}"):
            best = max(best, (len(rig), city)) if best else (len(rig), city)
    return best[1] if best else None


def rig_register(environ: Mapping[str, str]) -> str:
    """The file that says which directories are rigs of which cities, a line each."""
    return os.path.join(state_home(environ), "gascity", "rigs")


def known_rigs(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Rig directories with the root of their city."""
    try:
        with open(rig_register(environ), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    pairs = (line.split("\t") for line in lines)
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2 and pair[0].startswith("/")]


def state_home(environ: Mapping[str, str]) -> str:
    """The person's state directory."""
    return _home(environ, "XDG_STATE_HOME", ".local/state")


def config_home(environ: Mapping[str, str]) -> str:
    """The person's configuration directory."""
    return _home(environ, "XDG_CONFIG_HOME", ".config")


def cache_home(environ: Mapping[str, str]) -> str:
    """The person's cache directory."""
    return _home(environ, "XDG_CACHE_HOME", ".cache")


def _home(environ: Mapping[str, str], name: str, usual: str) -> str:
    """The directory that a variable names, else the usual one; a relative name does not count,
    as it would mean another place in every directory."""
    named = environ.get(name, "")
    return named if named.startswith("/") else os.path.join(environ.get("HOME", "/"), usual)


def make_state(root: str) -> None:
    """Have the directory of a city's own state, which git does not look at."""
    home = os.path.join(root, ".gc")
    if not os.path.isdir(home):
        os.makedirs(home, exist_ok=True)
        with open(os.path.join(home, ".gitignore"), "w", encoding="utf-8") as file:
            file.write("*\n")
