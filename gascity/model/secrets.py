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
    words: list[str] = []
    word = ""
    for at, char in enumerate(key):
        if not char.isalnum():
            words.append(word)
            word = ""
        elif char.isupper() and at and key[at - 1].islower():
            words.append(word)
            word = char
        else:
            word += char
    return [one.lower() for one in (*words, word) if one]


def masked(value: object, key: str = "") -> object:
    """A value with every secret in it hidden; a reference to the environment is no secret."""
    if isinstance(value, Mapping):
        return {name: masked(item, str(name)) for name, item in value.items()}
    if isinstance(value, str) and key and is_secret(key) and not _is_reference(value):
        return HIDDEN
    if isinstance(value, (list, tuple)):
        return [masked(item, key) for item in value]
    return value


def _is_reference(value: str) -> bool:
    return value.startswith("${") and value.endswith("}") and value.count("${") == 1


def masked_line(line: str) -> str:
    """A line of a person's file, fit to be shown beside a problem."""
    key, equals, value = line.partition("=")
    if equals and value.strip() and is_secret(key.strip().strip("\"'")):
        return f"{key}= {HIDDEN}"
    return line
