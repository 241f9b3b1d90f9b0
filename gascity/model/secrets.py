"""Which values are secrets, and how they are shown: not at all."""

from collections.abc import Mapping

HIDDEN = "…"

_WORDS = frozenset(
    ("key", "token", "secret", "password", "auth", "authorization", "credential", "cookie")
)


def is_secret(key: str) -> bool:
    """Does a key's name have a secret's word in it, as a whole word?"""
    return any(word in _WORDS or word.removesuffix("s") in _WORDS for word in _words(key))


def _words(key: str) -> list[str]:
    """`apiKey`, `APIKey`, `api-key` and `API_KEY` are the same two words."""
    words = [""]
    for at, char in enumerate(key):
        before, after = key[at - 1 : at], key[at + 1 : at + 2]
        if not char.isalnum():
            words.append("")
            continue
        if char.isupper() and (before.islower() or (before.isupper() and after.islower())):
            words.append("")
        words[-1] += char
    return [word.lower() for word in words if word]


def masked(value: object, key: str = "") -> object:
    """A value with every secret in it hidden; a reference to the environment is no secret."""
    return _masked(value, bool(key) and is_secret(key))


def _masked(value: object, secret: bool) -> object:
    if isinstance(value, Mapping):
        return {name: _masked(item, secret or is_secret(str(name))) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(item, secret) for item in value]
    if not secret or value is None or (isinstance(value, str) and _is_reference(value)):
        return value
    return HIDDEN


def _is_reference(value: str) -> bool:
    return value.startswith("${") and value.endswith("}") and value.count("${") == 1


def masked_line(line: str) -> str:
    """A line of a person's file, fit to be shown beside a problem: cut after a secret's key."""
    start = 0
    while (equals := line.find("=", start)) >= 0:
        words = line[:equals].rstrip().rstrip("\"'").replace("{", " ").replace(",", " ").split()
        if words and is_secret(words[-1].strip("\"'")) and line[equals + 1 :].strip():
            return f"{line[: equals + 1]} {HIDDEN}"
        start = equals + 1
    return line
