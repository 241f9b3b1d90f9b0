"""Where a pack lies that is not on this disk: addresses of repositories, told apart and checked."""

from functools import lru_cache
from typing import NoReturn

from gascity.model.records import NamedTuple
from gascity.model.secrets import HIDDEN

_PORTS = {"https": "443", "ssh": "22", "git": "9418", "file": ""}
_HUB = "github.com/"  # https:// may be left out before this one
_SCP = ""  # the scheme of `git@host:path`, which has none
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_SCHEME = _LETTERS | {"+"}
_NUMERIC = frozenset("0123456789abcdefABCDEF:.")

_FORMS = "write https://, ssh://, git:// or file:///, or git@host:path"
_KEYS = "leave it out: git asks its credential helper, or use ssh"
_PLAIN = "write the plain address of the repository, and `//dir` for a directory in it"


class Remote(NamedTuple):
    """A pack in a repository.

    `url` is what git is given; `path` the directory in the repository, "" for its top; `ref` a
    branch, tag or commit that the address itself names, as GitHub's tree addresses do.
    """

    url: str
    path: str = ""
    ref: str = ""


class SourceFault(Exception):
    """Why an address is not followed. Nothing in it repeats what may be a secret."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class _Address(NamedTuple):
    scheme: str
    user: str
    host: str
    port: str
    path: str

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        if self.scheme == _SCP:
            return f"{user}{self.host}:{self.path}"
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{user}{self.host}{port}{self.path}"


def is_remote(source: str) -> bool:
    """Is this an address, if only a forbidden one, and not a directory?

    `a:b/c` is a directory: without a user's name nothing tells it from `c:/packs`.
    """
    text = source.strip()
    if text[:1] in ("", ".", "/", "~") or text.startswith("builtin:"):
        return False
    head = text.partition("/")[0]
    if "://" in text or "@" in head[1:] or text.lower().startswith(_HUB):
        return True
    scheme, colon, rest = head.partition(":")
    return bool(colon) and (rest[:1] == ":" or scheme.lower() in (*_PORTS, "http"))


@lru_cache(maxsize=1024)  # a load asks of every import, of its lock and of its cache
def parse_remote(source: str) -> Remote:
    """Read an address in any of the forms people write. Raises SourceFault for every other text.

    What is returned holds no password, no token, and nothing a program could take for an option.
    Escapes such as `%20` are resolved in `path` and `ref`, and left in `url`.
    """
    _check_characters(source)
    text, _, ref = source.partition("#")
    address = _checked(text)
    _check_no_password(_resolved(f"{address.path}#{ref}"))
    repository, _, inside = address.path.partition("//")
    repository = repository.rstrip("/")
    if address.scheme == "https":
        repository, named, within = _of_web_page(address.host.lower(), repository)
        if ref and named:
            _refuse("bad-url", "the address names two refs", "keep the one behind `#`, or drop it")
        ref = ref or named
        inside = "/".join(part for part in (within, inside) if part)
    if not repository.strip("/"):
        _refuse("bad-url", "the address names no repository", _FORMS)
    _check_repository(address.scheme, repository)
    return Remote(
        str(address._replace(path=repository)), check_path(_resolved(inside)), _checked_ref(ref)
    )


@lru_cache(maxsize=1024)
def canonical(url: str) -> str:
    """The identity of a repository: equal for two ways to write the same address."""
    address = _split(url)
    path = address.path
    if address.scheme == _SCP and address.user:
        address = address._replace(scheme="ssh")
        path = "/" + path.lstrip("/")
    while path.endswith(("/", ".git")):
        path = path.removesuffix(".git").rstrip("/")
    port = "" if address.port == _PORTS.get(address.scheme) else address.port
    return str(address._replace(host=address.host.lower(), port=port, path=path))


def shown(source: str) -> str:
    """A source as it may be printed: without passwords and tokens, wherever they stand."""
    try:
        parse_remote(source)
        return source
    except SourceFault:
        text, query, _ = _without_people(source).partition("?")
        return text + (query and query + HIDDEN)


def check_path(path: str) -> str:
    """A directory in a repository, "" for its top, in its shortest spelling.

    Raises SourceFault for one that leads out of the repository or could be taken for an option.
    """
    if path.startswith("/") or "\\" in path or not path.isprintable():
        words = "the directory in the repository is not a plain relative path"
        _refuse("url-unsafe", words, "write it as `repository//packs/name`")
    parts = [part for part in path.removesuffix("/").split("/") if part != "."]
    if ".." in parts:
        words = "the directory leads out of the repository"
        _refuse("url-unsafe", words, "`..` has no place in an address")
    if parts != [""] and "" in parts:
        _refuse("bad-url", "the address has `//` twice", _PLAIN)
    _check_parts(parts)
    return "/".join(parts)


def _check_characters(source: str) -> None:
    """Refuse what no address of a repository has in it, wherever it stands."""
    if source.partition(":")[2].startswith(":"):
        _refuse("url-scheme", "`…::` starts a program; it is not followed", _FORMS)
    plain = _resolved(source)
    if " " in source or not source.isprintable() or not plain.isprintable():
        _refuse("url-unsafe", "the address has spaces or control characters in it", _PLAIN)
    if "\\" in plain:
        _refuse("url-unsafe", "the address has a backslash in it", "write `/`")
    if "?" in source:
        _refuse("url-unsafe", "the address has a query, `?…`, in it", _PLAIN)
    if source.startswith("-"):
        _refuse("url-unsafe", "the address begins with `-`", _FORMS)


def _checked(text: str) -> _Address:
    """The parts of an address whose scheme, user, host and port are as they should be."""
    address = _split(text)
    if address.scheme == _SCP and not address.user:
        _check_no_password(text)
        _refuse("url-scheme", "this is not the address of a repository", _FORMS)
    if address.scheme not in _PORTS and address.scheme != _SCP:
        known = _SCHEME.issuperset(address.scheme) and len(address.scheme) < 20
        words = f"`{address.scheme if known else '…'}://` is not followed"
        hint = "write https://" if address.scheme == "http" else _FORMS
        _refuse("url-scheme", words, hint)
    _check_authority(address)
    return address


def _split(text: str) -> _Address:
    """The parts of an address, whatever they are; the scheme in small letters."""
    scheme, mark, rest = text.partition("://")
    if not mark and text.lower().startswith(_HUB):
        scheme, mark, rest = "https", "://", text
    if not mark:
        authority, _, path = text.partition(":")
        user, _, host = authority.rpartition("@")
        return _Address(_SCP, user, host, "", path)
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    port = ""
    if not host.endswith("]") and ":" in host:
        host, _, port = host.rpartition(":")
    return _Address(scheme.lower(), user, host, port, slash + path)


def _check_authority(address: _Address) -> None:
    scheme, user, host, port, _ = address
    if scheme == "file":
        if user or host or port:
            words = "file:// names a directory of this machine, and no host"
            _refuse("url-unsafe", words, "write file:/// and the path")
        return
    if ":" in user or "%" in user or (user and scheme not in ("ssh", _SCP)):
        _refuse("url-credentials", "the address has a user or password in it", _KEYS)
    if not _is_host(host) or not _LETTERS.issuperset(user) or user.startswith("-"):
        _refuse("url-unsafe", "the address has no plain host, or no plain user", _FORMS)
    if port and not (port.isascii() and port.isdigit() and len(port) < 6):
        _refuse("url-unsafe", "the port is not a number", _FORMS)


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return len(host) > 2 and _NUMERIC.issuperset(host[1:-1])
    return bool(host) and host[0] not in "-." and _LETTERS.issuperset(host)


def _of_web_page(host: str, path: str) -> tuple[str, str, str]:
    """Repository, ref and directory of a page that GitHub or GitLab shows of a directory."""
    parts = path.strip("/").split("/")
    if "-" in parts:
        at = parts.index("-")
        page = parts[at + 1 :]
    elif host.startswith("github.") and len(parts) != 2:
        at, page = 2, parts[2:]
    else:
        return path, "", ""
    kind, ref, inside = "".join(page[:1]), "".join(page[1:2]), page[2:]
    if kind == "blob" and inside[-1:] == ["pack.toml"]:
        kind, inside = "tree", inside[:-1]
    if kind != "tree" or not ref:
        words = "the address is a page about a repository, not one of its directories"
        _refuse("bad-url", words, _PLAIN)
    return "/" + "/".join(parts[:at]), ref, "/".join(inside)


def _check_repository(scheme: str, path: str) -> None:
    plain = _resolved(path)
    if "@" in plain and scheme != "file":
        _refuse("url-credentials", "the address has an `@` behind its host", _KEYS)
    parts = plain.split("/")
    if ".." in parts:
        _refuse("url-unsafe", "the address has `..` in it", _PLAIN)
    _check_parts(parts)


def _check_parts(parts: list[str]) -> None:
    for part in parts:
        if part.startswith("-"):
            _refuse("url-unsafe", "a part of the address begins with `-`", _PLAIN)


def _checked_ref(ref: str) -> str:
    ref = _resolved(ref)
    _check_parts(ref.split("/"))
    return ref


def _check_no_password(text: str) -> None:
    if "@" in text.partition(":")[2]:
        _refuse("url-credentials", "the address has a user or password in it", _KEYS)


def _resolved(text: str) -> str:
    """A text with its escapes resolved, once."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _without_people(text: str) -> str:
    """A text without what stands before its last `@`, back to the scheme."""
    at = max(text.rfind("@"), text.lower().rfind("%40"))
    scheme, mark, _ = text[: max(at, 0)].partition("://")
    plain = mark and _SCHEME.issuperset(scheme)
    if at < 0 or not (mark or is_remote(text) or ":" in text[:at]):
        return text
    return (scheme + mark if plain else "") + HIDDEN + text[at:]


def _refuse(code: str, message: str, hint: str) -> NoReturn:
    raise SourceFault(code, message, hint)
