"""The outermost layer of the server: checks every request before anything else sees it."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gascity.web.access import ServerName, Visitors, cookie_value, refusal, security_headers

LARGEST_BODY = 1 << 20
_OPEN = ("/open", "/login", "/static/")  # what a browser without the cookie may request


class Guard:
    """Refuses requests that are not this page's own, and those of visitors without the cookie.

    The visitor of an accepted request is `request.state.visitor`; None on the pages for others.
    """

    def __init__(self, app: ASGIApp, visitors: Visitors, server: ServerName) -> None:
        self._app = app
        self._visitors = visitors
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no lifespan, no web sockets
        send = _with_security_headers(send)
        headers = Headers(scope=scope)
        refused = self._refusal(scope, headers)
        if refused is None:
            name = cookie_name(self._server.port)
            visitor = self._visitors.find(cookie_value(headers.get("cookie", ""), name))
            scope.setdefault("state", {})["visitor"] = visitor
            if visitor is None and not scope["path"].startswith(_OPEN):
                refused = self._without_cookie(scope)
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        reason = refusal(scope["method"], headers, self._server)
        if reason:
            return PlainTextResponse(f"Refused: {reason}.\n", 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return PlainTextResponse("Refused: the request is too large.\n", 413)
        return None

    def _without_cookie(self, scope: Scope) -> Response:
        wants_page = scope["method"] == "GET" and not _is_fragment(scope)
        if self._visitors.has_password and wants_page:
            return RedirectResponse("/login", 303)
        text = (
            "This browser has no access. Run `city web` again, or press Enter where it runs, to"
            " get a link. A link works once, within 60 seconds.\n"
        )
        return PlainTextResponse(text, 403)


def _is_fragment(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "x-fragment" in headers or "text/event-stream" in headers.get("accept", "")


def cookie_name(port: int) -> str:
    """Return the name of the cookie: browsers send a cookie to all ports of a host."""
    return f"city_web_{port}"


def _with_security_headers(send: Send) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in security_headers(headers.keys()):
                headers[name] = value
        await send(message)

    return secured


def same_path(location: str) -> str:
    """Return a location on this server, for redirects: anything else becomes the first page."""
    parts = urlsplit(location)
    local = location.startswith("/") and not location.startswith(("//", "/\\"))
    return location if local and not parts.netloc and location.isprintable() else "/"
