"""Access to the page: links that work once, cookies, form tokens and request headers.

A page on loopback is reachable by every program on the machine and, through the user's browser, by
every web site. So a visitor needs a cookie, which only the link that `city web` prints or opens, or
a password (the token for other machines) can give. Beyond that:

* The Host header must name this server; else a web site could point its own name at 127.0.0.1 and
  read the page as its own (DNS rebinding).
* The Origin header, which browsers send with every POST, must be this server; else another site's
  form could act for the visitor. Each form also has a token that only the page itself knows.
* The secret of a session (CITY_SESSION_TOKEN) is none of these and opens nothing.
"""

import ipaddress
import secrets
from collections.abc import Callable, Collection, Mapping
from hmac import compare_digest
from typing import NamedTuple

LINK_SECONDS = 60.0  # how long a link works, once
SHORTEST_PASSWORD = 16
_MOST_VISITORS = 50  # the oldest is forgotten


class Visitor(NamedTuple):
    """A browser that has the cookie, and the token of its forms."""

    cookie: str
    form_token: str


class Visitors:
    """The links that still work, and the browsers that came in by one or by the password."""

    def __init__(self, clock: Callable[[], float], password: str = "") -> None:
        self._clock = clock
        self._password = password
        self._links: dict[str, float] = {}  # when each was made
        self._visitors: dict[str, Visitor] = {}

    @property
    def has_password(self) -> bool:
        return bool(self._password)

    def new_link(self) -> str:
        """Return the token of a new link."""
        token = secrets.token_urlsafe(32)
        self._links[token] = self._clock()
        return token

    def follow(self, token: str) -> Visitor | None:
        """Return a new visitor for the token of a link; None if it is unknown, used or too old."""
        made = self._links.pop(token, None)
        if made is None or self._clock() - made > LINK_SECONDS:
            return None
        return self._admit()

    def log_in(self, password: str) -> Visitor | None:
        """Return a new visitor for the password; None if it is wrong or there is none."""
        given, wanted = password.strip().encode(), self._password.encode()
        return self._admit() if wanted and compare_digest(given, wanted) else None

    def find(self, cookie: str) -> Visitor | None:
        """Return the visitor with this cookie."""
        return self._visitors.get(cookie)

    def _admit(self) -> Visitor:
        while len(self._visitors) >= _MOST_VISITORS:
            del self._visitors[next(iter(self._visitors))]
        visitor = Visitor(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        self._visitors[visitor.cookie] = visitor
        return visitor


def form_token_matches(visitor: Visitor, given: str) -> bool:
    """Return whether a form came from a page of this visitor."""
    return compare_digest(visitor.form_token.encode(), given.encode(errors="replace"))


class ServerName(NamedTuple):
    """The names under which browsers reach the server."""

    hosts: frozenset[str]  # `127.0.0.1:4747`, in lower case
    port: int
    any_address: bool = False  # it listens on all addresses: any literal address is fine


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_name(host: str, port: int, machine: str) -> ServerName:
    """Return the names of a server that listens on `host`; `machine` is this machine's name."""
    names = {host}
    if is_loopback(host):
        names |= {"127.0.0.1", "localhost", "::1"}
    any_address = host in ("0.0.0.0", "::")
    names |= {machine, "localhost", "127.0.0.1"} if any_address else set()
    return ServerName(frozenset(_with_port(name, port) for name in names), port, any_address)


def _with_port(name: str, port: int) -> str:
    return f"[{name}]:{port}".lower() if ":" in name else f"{name}:{port}".lower()


def refusal(method: str, headers: Mapping[str, str], server: ServerName) -> str:
    """Return why a request is refused for every visitor; "" if it is not."""
    host = headers.get("host", "").lower()
    if not _is_ours(host, server):
        return "the Host header does not name this server"
    origin = headers.get("origin")
    if origin is None:
        if method not in ("GET", "HEAD"):
            return "the Origin header is missing"
    elif origin.lower() != f"http://{host}":
        return "the request comes from another site"
    elsewhere = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
    if elsewhere and headers.get("sec-fetch-mode") != "navigate":
        return "the request comes from another site"
    return ""


def _is_ours(host: str, server: ServerName) -> bool:
    if host in server.hosts:
        return True
    if not server.any_address:
        return False
    name, _, port = host.rpartition(":")
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return port == str(server.port)


def cookie_value(header: str, name: str) -> str:
    """Return a cookie of a request; "" if it has none of this name."""
    for pair in header.split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return value
    return ""


def security_headers(names: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return the headers of every response: nothing from elsewhere, nothing inline, no frames.

    `names` are those that the response already has.
    """
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; worker-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        # Not `no-referrer`: browsers would then send `Origin: null` with our own forms.
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
    return [(name, value) for name, value in headers.items() if name not in names]
