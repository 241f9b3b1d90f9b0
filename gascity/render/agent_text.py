"""Writes the values of agent files as YAML and TOML text.

Text stays unquoted only if every YAML reader takes it as text: readers differ in what they take for
a number, a date or a boolean.
"""

from collections.abc import Iterator, Mapping

# Words that some reader, of YAML 1.1 or 1.2, does not take as text.
_NOT_TEXT = frozenset("true false yes no on off y n null".split())
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def yaml_text(values: Mapping[str, object]) -> str:
    """Write a table as block YAML: one key per line, lists in one line."""
    return "\n".join(_yaml_lines(values, 0))


def _yaml_lines(values: Mapping[str, object], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in values.items():
        name = _yaml_string(key)
        match value:
            case Mapping() if value:
                yield f"{indent}{name}:"
                yield from _yaml_lines(value, depth + 1)
            case _:
                yield f"{indent}{name}: {_yaml_value(value)}"


def _yaml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _decimal(value)
        case Mapping():
            pairs = (f"{_quoted(str(k))}: {_yaml_item(v)}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list() | tuple():
            return f"[{', '.join(map(_yaml_item, value))}]"
    return _yaml_string(str(value))


def _yaml_item(value: object) -> str:
    """Write a value inside brackets, where more characters have a meaning: text is quoted."""
    return _quoted(value) if isinstance(value, str) else _yaml_value(value)


def _yaml_string(text: str) -> str:
    is_plain = (
        text[:1].isalpha()
        and text.isprintable()
        and text.casefold() not in _NOT_TEXT
        and ": " not in text
        and " #" not in text
        and not text.endswith((":", " "))
    )
    return text if is_plain else _quoted(text)


def _quoted(text: str) -> str:
    """Write text in single quotes; in double quotes if it needs escapes."""
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _decimal(value: float) -> str:
    """Write a number without an exponent, which some readers take for text."""
    from decimal import Decimal

    text = f"{Decimal(repr(value)):f}"
    return text if "." in text else f"{text}.0"


def toml_text(value: object) -> str:
    """Write a TOML value; text of several lines keeps them."""
    from gascity.toml.edit import literal

    if isinstance(value, str) and "\n" in value:
        if "'''" not in value and not value.endswith("'") and _is_readable(value):
            return f"'''\n{value}'''"
    return literal(value)


def _is_readable(text: str) -> bool:
    return all(line.replace("\t", " ").isprintable() for line in text.split("\n"))
