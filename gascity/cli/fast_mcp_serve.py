"""`city mcp serve`: the city's tools, or a server behind the gateway, over stdio.

Such processes run alongside every session, so the usual forms start without click and without
loading the city.
"""

from __future__ import annotations

import os

from gascity.paths import find_root

TYPE_CHECKING = False  # importing `typing` would take longer than answering `initialize`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gascity.control.gateway import GatewaySpec
    from gascity.control.run_config import RunConfig
    from gascity.control.tools.scope import CityServer
    from gascity.model.problems import Place

_FORMS = {("mcp", "serve"): False, ("mcp", "serve", "--as", "human"): True}


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Serve if the command line has one of the usual forms; None if the command needs click."""
    as_user = _FORMS.get(tuple(arguments))
    server = ""
    if len(arguments) == 4 and arguments[2] == "--server" and arguments[3][:1] != "-":
        as_user, server = False, arguments[3]
    if as_user is None or "_CITY_COMPLETE" in environ:
        return None
    try:
        directory = os.getcwd()
        root = find_root(directory, environ)
    except OSError:
        return None
    if root is None:
        return None
    if server:
        return serve_gateway(root, environ, directory, server)
    return serve(root, environ, directory, as_user)


def serve_gateway(
    root: str,
    environ: Mapping[str, str],
    directory: str,
    name: str,
    user_spec: Callable[[], GatewaySpec] | None = None,
) -> int:
    """Serve one server of the session's agent, or the one that a user means."""
    import signal
    from functools import partial

    from gascity.control.gateway import require_user, serve_server, session_server

    # Ends the loop, which then stops the server that it started.
    signal.signal(signal.SIGTERM, lambda *_: _exit(143))
    server = gateway_server(root, environ, directory, user_spec is not None)

    def for_user() -> GatewaySpec:
        require_user(server)
        assert user_spec is not None
        return user_spec()

    spec = for_user if user_spec is not None else partial(session_server, server, name)
    serve_server(server, name, spec, 0, _protocol_output(), line_finder(root))
    return 0


def gateway_server(
    root: str, environ: Mapping[str, str], directory: str, as_user: bool
) -> CityServer:
    """Return what a gateway process knows."""
    from gascity.control.tools.scope import make_server

    return make_server(root, environ, directory, as_user, _loader(root, environ))


def line_finder(root: str) -> Callable[[Place], int | None]:
    """Return the function that finds the line of a place in the city's files."""

    def line_of(place: Place) -> int | None:
        from gascity.cli.problems import Locator

        return Locator(root).line_col(place)[0]

    return line_of


def _exit(code: int) -> None:
    raise SystemExit(code)


def _protocol_output() -> int:
    """Return a copy of standard output; only the protocol may write to it from now on."""
    output = os.dup(1)
    os.dup2(2, 1)
    return output


def serve(root: str, environ: Mapping[str, str], directory: str, as_user: bool) -> int:
    """Serve until the client closes standard input."""
    from gascity.control.tools.server import serve_tools

    load = _loader(root, environ)
    serve_tools(0, _protocol_output(), root, environ, directory, load, as_user=as_user)
    return 0


def _loader(root: str, environ: Mapping[str, str]) -> Callable[[], RunConfig]:
    """Return the function that loads the city, for calls while no controller runs."""

    def load() -> RunConfig:
        from gascity.cli.context import machine
        from gascity.control.run_config import RunConfig
        from gascity.pipeline import open_city

        return RunConfig(open_city(root, environ), environ, machine())

    return load
