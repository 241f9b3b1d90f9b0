"""`city mcp serve`: the city's tools for an agent's session, or for a user's client, over stdio.

One such process runs alongside every session, so its usual form starts without click and without
loading the city.
"""

from __future__ import annotations

import os

from gascity.paths import find_root

TYPE_CHECKING = False  # importing `typing` would take longer than answering `initialize`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gascity.control.run_config import RunConfig

_FORMS = {("mcp", "serve"): False, ("mcp", "serve", "--as", "human"): True}


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Serve if the command line has one of the usual forms; None if the command needs click."""
    as_user = _FORMS.get(tuple(arguments))
    if as_user is None or "_CITY_COMPLETE" in environ:
        return None
    try:
        directory = os.getcwd()
        root = find_root(directory, environ)
    except OSError:
        return None
    if root is None:
        return None
    return serve(root, environ, directory, as_user)


def serve(root: str, environ: Mapping[str, str], directory: str, as_user: bool) -> int:
    """Serve until the client closes standard input."""
    from gascity.control.tools.server import serve_tools

    # The protocol owns standard output: nothing else may ever write to it.
    output = os.dup(1)
    os.dup2(2, 1)
    load = _loader(root, environ)
    serve_tools(0, output, root, environ, directory, load, as_user=as_user)
    return 0


def _loader(root: str, environ: Mapping[str, str]) -> Callable[[], RunConfig]:
    """Return the function that loads the city, for calls while no controller runs."""

    def load() -> RunConfig:
        from gascity.cli.context import machine
        from gascity.control.run_config import RunConfig
        from gascity.pipeline import open_city

        return RunConfig(open_city(root, environ), environ, machine())

    return load
