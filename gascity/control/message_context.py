"""The context line of a message: one `<context …/>` element before the text.

The sender writes it, and it is stored as part of the text. Nothing rewrites it later.
"""

from collections.abc import Mapping

from gascity.model.problems import CityError, Problem

_START = "<context "
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;"}
_KEY = frozenset("abcdefghijklmnopqrstuvwxyz-")


def with_context(text: str, context: Mapping[str, str]) -> str:
    """Return a text after its context line, with the keys in the given order.

    CityError if a key has other characters than lower-case letters and hyphens.
    """
    wrong = [key for key in context if not key or not _KEY.issuperset(key)]
    if wrong:
        names = ", ".join(f"`{key}`" for key in wrong)
        hint = "use lower-case letters and hyphens, such as panel-id"
        raise CityError(Problem("bad-context", f"{names} is not a valid context key", None, hint))
    if not context:
        return text
    attributes = (f'{key}="{_escaped(value)}"' for key, value in context.items())
    return f"{_START}{' '.join(attributes)}/>\n{text}"


def without_context(text: str) -> str:
    """Return a text without its context line, for its title."""
    first, _, rest = text.partition("\n")
    return rest if first.startswith(_START) and first.endswith("/>") else text


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(char, char) for char in value)
