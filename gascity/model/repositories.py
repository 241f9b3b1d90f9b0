"""Parse, validate and compare addresses of git repositories.

An address comes from a file that others may have written, and ends up in git's arguments. So only
known schemes and plain characters pass; passwords, options and helper programs are rejected.
"""

from functools import lru_cache
from typing import NamedTuple, NoReturn

from gascity.model.secrets import HIDDEN

# `accepted` of a lock that was written before packs had to be accepted; it counts as accepted.
UNRECORDED = "unrecorded"

_PORTS = {"https": "443", "ssh": "22", "git": "9418", "file": ""}
_HUB = "github.com/"  # `https://` may be omitted before it
_SCP = ""  # `git@host:path` has no scheme
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_SCHEME = _LETTERS | {"+"}
_NUMERIC = frozenset("0123456789abcdefABCDEF:.")

_FORMS = "write https://, ssh://, git:// or file:///, or git@host:path"
_KEYS = "leave it out: git asks its credential helper, or use ssh"
_PLAIN = "write the plain address of the repository, and `//dir` for a directory in it"


class Remote(NamedTuple):
    """A pack in a repository.

    `url` is passed to git; `path` is the directory in the repository, "" for its top; `ref` is a
    branch, tag or commit in the address itself, as in GitHub's `/tree/` pages.
    """

    url: str
    path: str = ""
    ref: str = ""


class LockedPack(NamedTuple):
    """One pack of a repository, pinned.

    `source` and `version` are as the importer writes them, `path` is the directory in the
    repository ("" for its top), `sha256` the hash of the pack's content, and `parents` are those
    who import it: `city`, `rig:NAME`, or the binding of a pack. A lock in its older, public form
    knows no hash and no parents. `accepted` is the commit that the user accepted, "" for none.
    """

    binding: str
    source: str
    path: str
    version: str
    commit: str
    sha256: str = ""
    parents: tuple[str, ...] = ()
    accepted: str = UNRECORDED

    @property
    def is_unrecorded(self) -> bool:
        """Was it locked before packs had to be accepted?"""
        return self.accepted == UNRECORDED

    @property
    def is_accepted(self) -> bool:
        """May its programs and settings be used?"""
        return self.is_unrecorded or self.accepted == self.commit


class SourceAddressError(Exception):
    """An address is invalid or not allowed. The texts contain no secrets."""

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
    """Is it an address, allowed or not, rather than a directory?

    `a:b/c` is a directory: without a user name it looks like `c:/packs`.
    """
    text = source.strip()
    if text[:1] in ("", ".", "/", "~") or text.startswith("builtin:"):
        return False
    head = text.partition("/")[0]
    if "://" in text or "@" in head[1:] or text.lower().startswith(_HUB):
        return True
    scheme, colon, rest = head.partition(":")
    return bool(colon) and (rest[:1] == ":" or scheme.lower() in (*_PORTS, "http"))


@lru_cache(maxsize=1024)  # loading parses each address for its import, lock and cache
def parse_remote(source: str) -> Remote:
    """Parse the address of a repository. Raises SourceAddressError for any other text.

    The result contains no password or token, and nothing that a program could parse as an option.
    Escapes such as `%20` are decoded in `path` and `ref`, but not in `url`.
    """
    _check_characters(source)
    text, _, ref = source.partition("#")
    address = _checked(text)
    _check_no_password(_decoded(f"{address.path}#{ref}"))
    repository, _, inside = address.path.partition("//")
    repository = repository.rstrip("/")
    if address.scheme == "https":
        repository, page_ref, page_path = _split_web_page(address.host.lower(), repository)
        if ref and page_ref:
            _refuse("bad-url", "the address contains two refs", "remove `#` and the ref after it")
        ref = ref or page_ref
        inside = "/".join(part for part in (page_path, inside) if part)
    if not repository.strip("/"):
        _refuse("bad-url", "the address contains no repository", _FORMS)
    _check_repository(address.scheme, repository)
    return Remote(
        str(address._replace(path=repository)), check_path(_decoded(inside)), _checked_ref(ref)
    )


@lru_cache(maxsize=1024)
def canonical(url: str) -> str:
    """Return the identity of a repository, equal for all spellings of its address."""
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
    """Return a source for display, without passwords and tokens."""
    try:
        parse_remote(source)
        return source
    except SourceAddressError:
        text, query, _ = _without_credentials(source).partition("?")
        return text + (query and query + HIDDEN)


def check_path(path: str) -> str:
    """Normalise a directory in a repository, "" for its top.

    Raises SourceAddressError if it leads out of the repository or looks like an option.
    """
    if path.startswith("/") or "\\" in path or not path.isprintable():
        message = "the directory in the repository is not a plain relative path"
        _refuse("url-unsafe", message, "write it as `repository//packs/name`")
    parts = [part for part in path.removesuffix("/").split("/") if part != "."]
    if ".." in parts:
        message = "the directory leads out of the repository"
        _refuse("url-unsafe", message, "remove `..` from the address")
    if parts != [""] and "" in parts:
        _refuse("bad-url", "the address contains `//` twice", _PLAIN)
    _check_parts(parts)
    return "/".join(parts)


def _check_characters(source: str) -> None:
    """Reject characters that are not allowed anywhere in an address."""
    if source.partition(":")[2].startswith(":"):
        _refuse("url-scheme", "`…::` starts a program; it is not followed", _FORMS)
    plain = _decoded(source)
    if " " in source or not source.isprintable() or not plain.isprintable():
        _refuse("url-unsafe", "the address contains spaces or control characters", _PLAIN)
    if "\\" in plain:
        _refuse("url-unsafe", "the address contains a backslash", "use `/` instead")
    if "?" in source:
        _refuse("url-unsafe", "the address contains a query (`?…`)", _PLAIN)
    if source.startswith("-"):
        _refuse("url-unsafe", "the address begins with `-`", _FORMS)


def _checked(text: str) -> _Address:
    """Split an address and validate its scheme, user, host and port."""
    address = _split(text)
    if address.scheme == _SCP and not address.user:
        _check_no_password(text)
        _refuse("url-scheme", "this is not a repository address", _FORMS)
    if address.scheme not in _PORTS and address.scheme != _SCP:
        known = _SCHEME.issuperset(address.scheme) and len(address.scheme) < 20
        message = f"`{address.scheme if known else '…'}://` is not followed"
        hint = "write https://" if address.scheme == "http" else _FORMS
        _refuse("url-scheme", message, hint)
    _check_authority(address)
    return address


def _split(text: str) -> _Address:
    """Split an address without validating it; the scheme is in lower case."""
    scheme, separator, rest = text.partition("://")
    if not separator and text.lower().startswith(_HUB):
        scheme, separator, rest = "https", "://", text
    if not separator:
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
            message = "file:// is for directories on this machine and takes no host"
            _refuse("url-unsafe", message, "write file:/// and the path")
        return
    if ":" in user or "%" in user or (user and scheme not in ("ssh", _SCP)):
        _refuse("url-credentials", "the address has a user or password in it", _KEYS)
    if not _is_host(host) or not _LETTERS.issuperset(user) or user.startswith("-"):
        _refuse("url-unsafe", "the host or user in the address is missing or invalid", _FORMS)
    if port and not (port.isascii() and port.isdigit() and len(port) < 6):
        _refuse("url-unsafe", "the port is not a number", _FORMS)


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return len(host) > 2 and _NUMERIC.issuperset(host[1:-1])
    return bool(host) and host[0] not in "-." and _LETTERS.issuperset(host)


def _split_web_page(host: str, path: str) -> tuple[str, str, str]:
    """Return repository, ref and directory of a GitHub or GitLab page that shows a directory."""
    parts = path.strip("/").split("/")
    if "-" in parts:
        end = parts.index("-")
        page = parts[end + 1 :]
    elif host.startswith("github.") and len(parts) != 2:
        end, page = 2, parts[2:]
    else:
        return path, "", ""
    kind, ref, inside = "".join(page[:1]), "".join(page[1:2]), page[2:]
    if kind == "blob" and inside[-1:] == ["pack.toml"]:
        kind, inside = "tree", inside[:-1]
    if kind != "tree" or not ref:
        message = "the address is a web page that does not show a directory of a repository"
        _refuse("bad-url", message, _PLAIN)
    return "/" + "/".join(parts[:end]), ref, "/".join(inside)


def _check_repository(scheme: str, path: str) -> None:
    plain = _decoded(path)
    if "@" in plain and scheme != "file":
        _refuse("url-credentials", "the address has an `@` after its host", _KEYS)
    parts = plain.split("/")
    if ".." in parts:
        _refuse("url-unsafe", "the address contains `..`", _PLAIN)
    _check_parts(parts)


def _check_parts(parts: list[str]) -> None:
    for part in parts:
        if part.startswith("-"):
            _refuse("url-unsafe", "a part of the address begins with `-`", _PLAIN)


def _checked_ref(ref: str) -> str:
    ref = _decoded(ref)
    _check_parts(ref.split("/"))
    return ref


def _check_no_password(text: str) -> None:
    if "@" in text.partition(":")[2]:
        _refuse("url-credentials", "the address has a user or password in it", _KEYS)


def _decoded(text: str) -> str:
    """Decode escapes such as `%20`, once."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _without_credentials(text: str) -> str:
    """Replace everything between the scheme and the last `@`."""
    at = max(text.rfind("@"), text.lower().rfind("%40"))
    scheme, separator, _ = text[: max(at, 0)].partition("://")
    if at < 0 or not (separator or is_remote(text) or ":" in text[:at]):
        return text
    has_scheme = separator and _SCHEME.issuperset(scheme)
    return (scheme + separator if has_scheme else "") + HIDDEN + text[at:]


def _refuse(code: str, message: str, hint: str) -> NoReturn:
    raise SourceAddressError(code, message, hint)
