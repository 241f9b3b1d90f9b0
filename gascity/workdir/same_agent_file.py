"""Compares agent files by meaning: one that means the same as the project's is not written."""

from collections.abc import Mapping

from gascity.model.front_matter import read_front_matter
from gascity.model.values import JsonObject, as_texts


def same_agent(text: str, other: str, constants: Mapping[str, object]) -> bool:
    """Return whether two Markdown agent files define the same agent.

    Quotes, the style of lists, and space around the prompt do not matter. `constants` are keys
    that every generated file has; a file without them means the same.
    """
    first, second = _read(text, constants), _read(other, constants)
    return first is not None and first == second


def _read(text: str, constants: Mapping[str, object]) -> tuple[JsonObject, str] | None:
    """Return the keys and the prompt; None if the file cannot be read."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    matter = read_front_matter(text)
    if matter is None or matter.error:
        return None
    values = {
        key: _plain(value)
        for key, value in matter.values.items()
        if value is not None and constants.get(key) != value
    }
    return values, text.partition("\n---")[2].partition("\n")[2].strip()


def _plain(value: object) -> object:
    """Return a value in one spelling: a list of words may be written as text with commas."""
    match value:
        case str():
            return ", ".join(word.strip() for word in value.strip().split(","))
    words = as_texts(value)
    return value if words is None else ", ".join(words)
