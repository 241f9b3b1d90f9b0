"""Which commit of a repository a version means: ranges over its tags, or a tag, branch, commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from gascity.model.names import near
from gascity.model.records import NamedTuple

_HEX = frozenset("0123456789abcdef")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
_FREE = ("x", "X", "*")
_LONGEST = 18  # digits; more are no version of anything
_SIGNS = (">=", "<=", ">", "<", "=")
_FORMS = "write a range such as ^1.2, or tag:NAME, branch:NAME or sha:COMMIT"


class Refs(NamedTuple):
    """What a repository names. Every commit is written in full; `head` is "" in an empty one."""

    head: str
    default_branch: str
    tags: Mapping[str, str]
    branches: Mapping[str, str]


class Wanted(NamedTuple):
    """What an importer asks for. `kind` is `range`, `tag`, `branch`, `sha`, `ref` or `newest`."""

    kind: str
    text: str = ""


class Picked(NamedTuple):
    """The commit that is meant, and the tag or branch that led to it, "" for a commit by itself."""

    commit: str
    name: str


class Version(NamedTuple):
    """A version as SemVer orders it: tuples compare as versions do. `before` is its pre-release."""

    major: int
    minor: int
    patch: int
    is_release: bool = True
    before: tuple[tuple[bool, int, str], ...] = ()


class VersionFault(Exception):
    """Why a text is not a version that can be asked for."""

    def __init__(self, message: str, hint: str = _FORMS) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class _Bound(NamedTuple):
    sign: str
    version: Version


def parse_wanted(version: str, ref: str = "") -> Wanted:
    """Read a `version`, or the ref its address names where there is none. Raises VersionFault."""
    text = version.strip()
    if not text:
        return Wanted("ref", _checked_name(ref)) if ref else Wanted("newest")
    if text == "*":
        return Wanted("newest")
    kind, colon, name = text.partition(":")
    if colon and kind in ("tag", "branch"):
        return Wanted(kind, _checked_name(name))
    if colon and kind == "sha":
        return Wanted(kind, _checked_commit(name))
    _bounds(text)
    return Wanted("range", text)


def pick(wanted: Wanted, refs: Refs) -> Picked | None:
    """The commit that is wanted, as the repository's refs stand; None if there is none.

    For a commit the refs are not looked at: what was written is returned, which may be its first
    digits only, and who fetches it finds the rest and says so if it is not there.
    """
    match wanted.kind:
        case "sha":
            return Picked(wanted.text, "")
        case "tag":
            return _named(wanted.text, refs.tags)
        case "branch":
            return _named(wanted.text, refs.branches)
        case "ref":
            commit = Picked(wanted.text, "") if is_commit(wanted.text) else None
            return _named(wanted.text, refs.tags) or _named(wanted.text, refs.branches) or commit
        case "range":
            bounds = _bounds(wanted.text)
            return _newest(refs, lambda version: _is_within(version, bounds))
    newest = _newest(refs, lambda version: version.is_release)
    return newest or (Picked(refs.head, refs.default_branch) if refs.head else None)


def default_version(refs: Refs) -> str:
    """What to ask for if nobody says: the newest release and what is compatible, else the head."""
    newest = _newest(refs, lambda version: version.is_release)
    version = version_of(newest.name) if newest else None
    if version is not None:
        return f"^{version.major}.{version.minor}.{version.patch}"
    return f"sha:{refs.head}" if refs.head else ""


def nearest(wanted: Wanted, refs: Refs) -> tuple[str, ...]:
    """Up to three tags or branches that a person may have meant: by spelling, else the newest."""
    tags = {} if wanted.kind == "branch" else refs.tags
    branches = refs.branches if wanted.kind in ("branch", "ref") else {}
    found = near(wanted.text, {*tags, *branches}) if wanted.kind != "range" else []
    if not found:
        newest = sorted(((version, name) for name, version in _versions(tags)), reverse=True)
        default_first = sorted(branches, key=lambda name: (name != refs.default_branch, name))
        found = [*(name for _, name in newest), *default_first]
    return tuple(found[:3])


def is_commit(text: str) -> bool:
    """A commit's full name, in small letters: 40 digits, or 64 in a repository with SHA-256."""
    return len(text) in (40, 64) and _HEX.issuperset(text)


def version_of(tag: str) -> Version | None:
    """The version a tag names, `v1.2.3`, `1.2.3-rc.1` or `v1.2`; None for any other tag.

    A tag such as `v1` is none: those are moved from release to release.
    """
    numbers, free, before = _numbers(tag)
    if free or numbers is None or len(numbers) not in (2, 3):
        return None
    return _version(numbers, before)


def _versions(tags: Iterable[str]) -> Iterator[tuple[str, Version]]:
    for name in tags:
        version = version_of(name)
        if version is not None:
            yield name, version


def _newest(refs: Refs, suits: Callable[[Version], bool]) -> Picked | None:
    """The tag of the highest version that suits; of two for one version, the later by name."""
    found = max(
        ((version, name) for name, version in _versions(refs.tags) if suits(version)), default=None
    )
    return Picked(refs.tags[found[1]], found[1]) if found else None


def _named(name: str, refs: Mapping[str, str]) -> Picked | None:
    return Picked(refs[name], name) if name in refs else None


def _checked_commit(text: str) -> str:
    commit = text.lower()
    if not (7 <= len(commit) <= 40 or len(commit) == 64) or not _HEX.issuperset(commit):
        words = "`sha:` wants a commit, 7 to 40 hexadecimal digits"
        raise VersionFault(words, "copy it from `git log`")
    return commit


def _checked_name(name: str) -> str:
    """A name git would let a tag or branch have, and that nothing takes for more than a name."""
    parts = name.split("/")
    if (
        not name.isprintable()
        or any(sign in name for sign in (" ", "..", "@{", *"~^:?*[\\"))
        or any(not part or part.startswith((".", "-")) or part.endswith(".lock") for part in parts)
        or name.endswith(".")
        or name == "@"
    ):
        raise VersionFault(
            "this cannot be the name of a tag or branch", "write the name as git has it"
        )
    return name


def _is_within(version: Version, bounds: list[_Bound]) -> bool:
    """Pre-releases are for those who name one of the same release."""
    if not version.is_release and not any(
        not bound.version.is_release and bound.version[:3] == version[:3] for bound in bounds
    ):
        return False
    return all(_holds(version, *bound) for bound in bounds)


def _holds(version: Version, sign: str, bound: Version) -> bool:
    if version == bound:
        return "=" in sign
    return sign.startswith("<" if version < bound else ">")


def _bounds(text: str) -> list[_Bound]:
    """A range as plain comparisons that all have to hold. Raises VersionFault."""
    found: list[_Bound] = []
    for sign, number in _comparisons(text):
        found += _comparison(sign, number)
    return found


def _comparisons(text: str) -> Iterator[tuple[str, str]]:
    """Sign and number of each comparison; a sign may stand apart from its number."""
    sign = ""
    words = text.replace(",", " ").split()
    for word in words:
        number = word.lstrip("^~<>=")
        sign += word[: len(word) - len(number)]
        if number:
            yield sign, number
            sign = ""
    if sign or not words:
        raise VersionFault("a number is missing in the range")


def _comparison(sign: str, text: str) -> list[_Bound]:
    numbers, _, before = _numbers(text)
    if numbers is None or (before and len(numbers) < 3):
        raise _no_range(text)
    if sign not in ("", "^", "~", *_SIGNS):
        raise VersionFault(f"`{sign}` is not a sign of a range", "use ^ ~ >= <= > < or =")
    low = _version(numbers, before)
    if not numbers:
        return []
    if sign == "^":
        return [_Bound(">=", low), _Bound("<", _after(numbers, _weightiest(numbers)))]
    if sign == "~":
        return [_Bound(">=", low), _Bound("<", _after(numbers, min(1, len(numbers) - 1)))]
    if len(numbers) == 3:
        return [_Bound(sign or "=", low)]
    high = _after(numbers, len(numbers) - 1)
    return {
        ">=": [_Bound(">=", low)],
        "<": [_Bound("<", low)],
        ">": [_Bound(">=", high)],
        "<=": [_Bound("<", high)],
    }.get(sign, [_Bound(">=", low), _Bound("<", high)])


def _weightiest(numbers: list[int]) -> int:
    """Which number must not change: the first that is not 0, else the last that is written."""
    return next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)


def _after(numbers: list[int], at: int) -> Version:
    """The first release in which the number at `at` is higher."""
    return _version([*numbers[:at], numbers[at] + 1])


def _no_range(text: str) -> VersionFault:
    if not text.isprintable():
        return VersionFault("the version has control characters in it")
    if 7 <= len(text) <= 64 and _HEX.issuperset(text.lower()):
        return VersionFault(f"`{text}` is not a version", f"write sha:{text} for a commit")
    return VersionFault(f"`{text}` is not a version")


def _version(numbers: list[int], before: str = "") -> Version:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    marks = tuple(
        (False, int(part), "") if part.isdigit() else (True, 0, part)
        for part in (before.split(".") if before else ())
    )
    return Version(major, minor, patch, not before, marks)


def _numbers(text: str) -> tuple[list[int] | None, bool, str]:
    """The numbers of a version, None if it has none; does `x` stand for more; its pre-release."""
    text, plus, build = text.removeprefix("v").partition("+")
    core, dash, before = text.partition("-")
    parts = core.split(".")
    fixed = [part for part in parts if part not in _FREE]
    free = len(fixed) < len(parts)
    marks = [*(before.split(".") if dash else ()), *(build.split(".") if plus else ())]
    if (
        len(parts) > 3
        or parts[: len(fixed)] != fixed
        or not all(part.isascii() and part.isdigit() and len(part) <= _LONGEST for part in fixed)
        or not all(mark and _WORD.issuperset(mark) and len(mark) <= 100 for mark in marks)
    ):
        return None, False, ""
    return [int(part) for part in fixed], free, before
