"""Parse version requests and select the commit that matches one.

A request is a range over the repository's tags (`^1.2`), or a tag, branch or commit. Ranges follow
npm: each comparison becomes lower and upper bounds, and a version must satisfy all of them. A
pre-release matches only if a bound names a pre-release of the same version.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.names import near

_HEX = frozenset("0123456789abcdef")
_IDENTIFIER = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
_WILDCARDS = ("x", "X", "*")
_MAX_DIGITS = 18  # of a number; longer ones are not versions
_OPERATORS = (">=", "<=", ">", "<", "=")
_FORMS = "write a range such as ^1.2, or tag:NAME, branch:NAME or sha:COMMIT"


class Refs(NamedTuple):
    """The refs of a repository, with full commit names; `head` is "" if it has no commits."""

    head: str
    default_branch: str
    tags: Mapping[str, str]
    branches: Mapping[str, str]


class VersionRequest(NamedTuple):
    """A parsed version: `kind` is `range`, `tag`, `branch`, `sha`, `ref` or `newest`."""

    kind: str
    text: str = ""


class VersionMatch(NamedTuple):
    """The selected commit, and the tag or branch that points to it ("" if requested by commit)."""

    commit: str
    name: str


class Version(NamedTuple):
    """A semantic version, as a tuple that sorts in SemVer order."""

    major: int
    minor: int
    patch: int
    is_release: bool = True
    prerelease: tuple[tuple[bool, int, str], ...] = ()


class VersionError(Exception):
    """A text is not a valid version request."""

    def __init__(self, message: str, hint: str = _FORMS) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class _Bound(NamedTuple):
    operator: str
    version: Version


def parse_version_request(version: str, ref: str = "") -> VersionRequest:
    """Parse a `version`; if it is empty, use the ref in the address. Raises VersionError."""
    text = version.strip()
    if not text:
        return VersionRequest("ref", _checked_name(ref)) if ref else VersionRequest("newest")
    if text == "*":
        return VersionRequest("newest")
    kind, colon, name = text.partition(":")
    if colon and kind in ("tag", "branch"):
        return VersionRequest(kind, _checked_name(name))
    if colon and kind == "sha":
        return VersionRequest(kind, _checked_commit(name))
    _bounds(text)
    return VersionRequest("range", text)


def pick(request: VersionRequest, refs: Refs) -> VersionMatch | None:
    """Return the commit that a request selects among the refs; None if nothing matches.

    A requested commit is returned unchanged and without looking at the refs. It may be abbreviated;
    fetching completes it, and fails if it does not exist.
    """
    match request.kind:
        case "sha":
            return VersionMatch(request.text, "")
        case "tag":
            return _named(request.text, refs.tags)
        case "branch":
            return _named(request.text, refs.branches)
        case "ref":
            commit = VersionMatch(request.text, "") if is_commit(request.text) else None
            return _named(request.text, refs.tags) or _named(request.text, refs.branches) or commit
        case "range":
            bounds = _bounds(request.text)
            return _newest(refs, lambda version: _is_within(version, bounds))
    newest = _newest(refs, lambda version: version.is_release)
    return newest or (VersionMatch(refs.head, refs.default_branch) if refs.head else None)


def default_version(refs: Refs) -> str:
    """Return the version for a new import: compatible with the newest release, else the head."""
    newest = _newest(refs, lambda version: version.is_release)
    version = version_of(newest.name) if newest else None
    if version is not None:
        return f"^{version.major}.{version.minor}.{version.patch}"
    return f"sha:{refs.head}" if refs.head else ""


def nearest(request: VersionRequest, refs: Refs) -> tuple[str, ...]:
    """Return up to three tags or branches to suggest: similar names, else the newest."""
    tags = {} if request.kind == "branch" else refs.tags
    branches = refs.branches if request.kind in ("branch", "ref") else {}
    names = near(request.text, {*tags, *branches}) if request.kind != "range" else []
    if not names:
        newest = sorted(((version, name) for name, version in _versions(tags)), reverse=True)
        default_first = sorted(branches, key=lambda name: (name != refs.default_branch, name))
        names = [*(name for _, name in newest), *default_first]
    return tuple(names[:3])


def is_commit(text: str) -> bool:
    """Is it a full commit name in lower case: 40 digits, or 64 in a SHA-256 repository?"""
    return len(text) in (40, 64) and _HEX.issuperset(text)


def version_of(tag: str) -> Version | None:
    """Return the version of a tag such as `v1.2.3`, `1.2.3-rc.1` or `v1.2`; None for other tags.

    `v1` is not a version, because such tags move from release to release.
    """
    numbers, has_wildcard, prerelease = _numbers(tag)
    if has_wildcard or numbers is None or len(numbers) not in (2, 3):
        return None
    return _version(numbers, prerelease)


def _versions(tags: Iterable[str]) -> Iterator[tuple[str, Version]]:
    for name in tags:
        version = version_of(name)
        if version is not None:
            yield name, version


def _newest(refs: Refs, matches: Callable[[Version], bool]) -> VersionMatch | None:
    """Return the tag of the highest matching version; of equal versions, the last tag by name."""
    matching = [(version, tag) for tag, version in _versions(refs.tags) if matches(version)]
    return _named(max(matching)[1], refs.tags) if matching else None


def _named(name: str, refs: Mapping[str, str]) -> VersionMatch | None:
    return VersionMatch(refs[name], name) if name in refs else None


def _checked_commit(text: str) -> str:
    commit = text.lower()
    if not (7 <= len(commit) <= 40 or len(commit) == 64) or not _HEX.issuperset(commit):
        message = "`sha:` must be followed by a commit of 7 to 40 hexadecimal digits"
        raise VersionError(message, "copy the commit from `git log`")
    return commit


def _checked_name(name: str) -> str:
    """Return a name that git allows for a tag or branch, and that git cannot parse as an option."""
    parts = name.split("/")
    if (
        not name.isprintable()
        or any(text in name for text in (" ", "..", "@{", *"~^:?*[\\"))
        or any(not part or part.startswith((".", "-")) or part.endswith(".lock") for part in parts)
        or name.endswith(".")
        or name == "@"
    ):
        raise VersionError(
            "this is not a valid name of a tag or branch",
            "copy the name from `git branch` or `git tag`",
        )
    return name


def _is_within(version: Version, bounds: list[_Bound]) -> bool:
    """Does a version satisfy all bounds? A pre-release must also be allowed by one of them."""
    if not version.is_release and not any(
        not bound.version.is_release and bound.version[:3] == version[:3] for bound in bounds
    ):
        return False
    return all(_satisfies(version, *bound) for bound in bounds)


def _satisfies(version: Version, operator: str, bound: Version) -> bool:
    if version == bound:
        return "=" in operator
    return operator.startswith("<" if version < bound else ">")


def _bounds(text: str) -> list[_Bound]:
    """Parse a range into bounds that must all be satisfied. Raises VersionError."""
    bounds: list[_Bound] = []
    for operator, version in _comparisons(text):
        bounds += _comparison(operator, version)
    return bounds


def _comparisons(text: str) -> Iterator[tuple[str, str]]:
    """Yield operator and version of each comparison; spaces between the two are allowed."""
    operator = ""
    tokens = text.replace(",", " ").split()
    for token in tokens:
        version = token.lstrip("^~<>=")
        operator += token[: len(token) - len(version)]
        if version:
            yield operator, version
            operator = ""
    if operator or not tokens:
        raise VersionError("the range has an operator without a version")


def _comparison(operator: str, text: str) -> list[_Bound]:
    """Return the bounds of one comparison; a version with missing numbers covers a whole range."""
    numbers, _, prerelease = _numbers(text)
    if numbers is None or (prerelease and len(numbers) < 3):
        raise _invalid(text)
    if operator not in ("", "^", "~", *_OPERATORS):
        raise VersionError(f"`{operator}` is not a range operator", "use ^ ~ >= <= > < or =")
    low = _version(numbers, prerelease)
    if not numbers:
        return []
    if operator == "^":
        return [_Bound(">=", low), _Bound("<", _after(numbers, _first_significant(numbers)))]
    if operator == "~":
        return [_Bound(">=", low), _Bound("<", _after(numbers, min(1, len(numbers) - 1)))]
    if len(numbers) == 3:
        return [_Bound(operator or "=", low)]
    high = _after(numbers, len(numbers) - 1)
    return {
        ">=": [_Bound(">=", low)],
        "<": [_Bound("<", low)],
        ">": [_Bound(">=", high)],
        "<=": [_Bound("<", high)],
    }.get(operator, [_Bound(">=", low), _Bound("<", high)])


def _first_significant(numbers: list[int]) -> int:
    """Return the index of the number that `^` keeps: the first that is not 0, else the last."""
    return next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)


def _after(numbers: list[int], index: int) -> Version:
    """Return the first release in which the number at `index` is higher."""
    return _version([*numbers[:index], numbers[index] + 1])


def _invalid(text: str) -> VersionError:
    if not text.isprintable():
        return VersionError("the version contains control characters")
    if 7 <= len(text) <= 64 and _HEX.issuperset(text.lower()):
        return VersionError(f"`{text}` is not a version", f"write sha:{text} for a commit")
    return VersionError(f"`{text}` is not a version")


def _version(numbers: list[int], prerelease: str = "") -> Version:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    # SemVer sorts numeric identifiers before others, and by value.
    identifiers = tuple(
        (False, int(part), "") if part.isdigit() else (True, 0, part)
        for part in (prerelease.split(".") if prerelease else ())
    )
    return Version(major, minor, patch, not prerelease, identifiers)


def _numbers(text: str) -> tuple[list[int] | None, bool, str]:
    """Return the numbers of a version, whether it has wildcards (`1.x`), and its pre-release.

    The numbers are None if the text is not a version.
    """
    text, plus, build = text.removeprefix("v").partition("+")
    core, dash, prerelease = text.partition("-")
    parts = core.split(".")
    fixed = [part for part in parts if part not in _WILDCARDS]
    has_wildcard = len(fixed) < len(parts)
    identifiers = [
        *(prerelease.split(".") if dash else ()),
        *(build.split(".") if plus else ()),
    ]
    if (
        len(parts) > 3
        or parts[: len(fixed)] != fixed
        or not all(part.isascii() and part.isdigit() and len(part) <= _MAX_DIGITS for part in fixed)
        or not all(
            name and _IDENTIFIER.issuperset(name) and len(name) <= 100 for name in identifiers
        )
    ):
        return None, False, ""
    return [int(part) for part in fixed], has_wildcard, prerelease
