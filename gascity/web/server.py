"""Runs the server: opens its port, prints or opens the link, and stops on Ctrl-C."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import uvicorn

from gascity.cli.context import CommandContext
from gascity.web.access import Visitors, is_loopback, server_name
from gascity.web.app import make_app
from gascity.web.site import CitySite
from gascity.web.templating import environment

DEFAULT_PORT = 4747
_GRACE = 1  # seconds for open connections when the server stops
_BACKLOG = 128


class WebOptions(NamedTuple):
    """Address to listen on, and how visitors log in."""

    host: str
    port: int | None  # None: the default, or any other that is free
    password: str
    open_browser: bool


def bind(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens; the default port may be replaced by a free one. OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = DEFAULT_PORT if port is None else port
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, wanted))
        except OSError:
            if port is not None:
                raise
            made.bind((host, 0))
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def address(host: str, port: int) -> str:
    """Return the URL of a server."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    context: CommandContext,
    options: WebOptions,
    listening: socket.socket,
    announce: Callable[[str], None],
) -> int:
    """Serve until interrupted; `announce` gets the URL whenever there is a new link."""
    return asyncio.run(_serve(context, options, listening, announce))


async def _serve(
    context: CommandContext,
    options: WebOptions,
    listening: socket.socket,
    announce: Callable[[str], None],
) -> int:
    port = int(listening.getsockname()[1])
    visitors = Visitors(time.monotonic, options.password)
    site = CitySite(context, visitors)
    app = make_app(site, server_name(options.host, port, socket.gethostname()))
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        loop="asyncio",
        http="h11",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
    )
    server = uvicorn.Server(config)
    where = address(options.host, port)

    def new_link() -> None:
        if is_loopback(options.host):
            announce(f"{where}/open?token={visitors.new_link()}")
        else:
            announce(f"{where}/")

    asyncio.get_running_loop().run_in_executor(None, warm_up)
    watching = asyncio.create_task(site.reader.watch())
    stop_asking = _on_enter(new_link)
    new_link()
    try:
        await server.serve(sockets=[listening])
    finally:
        stop_asking()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await site.reader.close()
    return 0


def warm_up() -> None:
    """Load what the first pages would have to wait for."""
    import gascity.pipeline  # noqa: F401 - the formats of logs

    for name in environment().list_templates():
        environment().get_template(name)


def _on_enter(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function for each line that the user enters; return what ends that."""
    loop = asyncio.get_running_loop()
    if not sys.stdin.isatty():
        return lambda: None
    fd = sys.stdin.fileno()

    def read() -> None:
        if os.read(fd, 1024):
            function()
        else:
            loop.remove_reader(fd)

    def stop() -> None:
        loop.remove_reader(fd)

    loop.add_reader(fd, read)
    return stop
