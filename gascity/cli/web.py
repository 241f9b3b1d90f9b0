"""`city web`: the city as a page in the browser."""

import os
import stat

import click

from gascity.cli.command import command
from gascity.cli.context import CommandContext, pass_context
from gascity.cli.identity import caller
from gascity.cli.output import print_stderr, print_stdout
from gascity.cli.problems import city_error, missing_extra

_EXTRA = "gascity[web]"
_MODULES = ("starlette", "uvicorn")


@command(
    "web",
    examples=(
        "city web",
        "city web --no-open --port 8080",
        "city web --host 0.0.0.0 --token-file ~/.config/gascity/web-token",
    ),
    page="how-to/web",
)
@click.option("--port", metavar="PORT", type=click.IntRange(0, 65535), help="Port (default: 4747).")
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    help="Address to listen on (default: 127.0.0.1).",
)
@click.option("--open/--no-open", "opens", default=None, help="Open the page in the browser.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="File with the token that other machines log in with, needed for other addresses.",
)
@pass_context
def web(
    context: CommandContext, port: int | None, host: str, opens: bool | None, token_file: str | None
) -> int:
    """Show the city as a page in the browser.

    Runs until Ctrl-C. The link works once, within 60 seconds; press Enter for another.
    CITY_WEB_TOKEN can replace --token-file.
    """
    _require_user(context)
    _require_extra()
    from gascity.web.access import is_loopback
    from gascity.web.server import WebOptions, bind, serve

    root = context.root
    password = _password(context, token_file)
    local = is_loopback(host)
    if not local and not password:
        message = f"other machines can reach {host}, so visitors must log in with a token"
        hint = "pass --token-file FILE, or set CITY_WEB_TOKEN"
        raise city_error("no-token", message, hint)
    try:
        listening = bind(host, port)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot listen on {host}" + (f":{port}" if port else "") + f": {reason}"
        raise city_error("cannot-listen", message, "choose another --port or --host") from None
    if not local:
        print_stderr(
            "warning: the connection is not encrypted; use it in a network that you trust,"
            " or through an SSH tunnel"
        )
    opened = local and (_has_display(context) if opens is None else opens)

    def announce(url: str) -> None:
        print_stdout(f"City page: {url}")
        if opened:
            _open(url)

    print_stderr(f"Serving the city in {root}.")
    print_stderr("Press Enter for another link, Ctrl-C to stop.")
    options = WebOptions(host, port, password, opened)
    try:
        return serve(context, options, listening, announce)
    except KeyboardInterrupt:
        return 0  # the usual way to stop it


def _require_user(context: CommandContext) -> None:
    """Raise CityError for a session, whatever its capabilities: the page acts as the user."""
    who = caller(context)
    if who is not None:
        message = f"a session of `{who.agent}` may not use `city web`: the page acts for the user"
        raise city_error("not-from-a-session", message, "run it in a terminal of your own")


def _require_extra() -> None:
    """Raise CityError if a package of the extra is missing."""
    from importlib.util import find_spec

    missing = [name for name in _MODULES if find_spec(name) is None]
    if missing:
        raise missing_extra("web", _EXTRA, missing)


def _password(context: CommandContext, token_file: str | None) -> str:
    """Return the token for logging in, from the file or the environment; "" for none."""
    from gascity.web.access import SHORTEST_PASSWORD

    if token_file is None:
        token, source = context.environ.get("CITY_WEB_TOKEN", "").strip(), "CITY_WEB_TOKEN"
        if not token:
            return ""
    else:
        path = source = context.path(token_file)
        with open(path, encoding="utf-8", errors="replace") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read(4096).strip()
        if mode & 0o077:
            message = f"{path} can be read by other users"
            raise city_error("token-not-private", message, f"run `chmod 600 {path}`")
    if len(token) < SHORTEST_PASSWORD or not token.isascii() or not token.isprintable():
        message = f"{source}: the token must have at least {SHORTEST_PASSWORD} ASCII characters"
        hint = "create one: `openssl rand -hex 32`"
        raise city_error("weak-token", message, hint)
    return token


def _has_display(context: CommandContext) -> bool:
    """Return whether there is a browser to open: a terminal of the user, with a display."""
    import sys

    display = context.environ.get("DISPLAY") or context.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(display or sys.platform == "darwin")


def _open(url: str) -> None:
    import webbrowser
    from threading import Thread

    # Some browsers start slowly, and nothing waits for them.
    Thread(target=webbrowser.open, args=(url,), daemon=True).start()
