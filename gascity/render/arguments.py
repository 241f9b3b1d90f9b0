"""Flags with their values, and placeholders in the texts of provider facts."""

from collections.abc import Mapping


def flag_args(flag: str, value: str) -> list[str]:
    """Return a flag and its value as arguments; a final `=` joins them."""
    words = flag.split()
    if words and words[-1].endswith("="):
        return [*words[:-1], words[-1] + value]
    return [*words, value]


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace `{workdir}` and the like; one in quotes becomes a string of TOML and JSON."""
    import re

    def value(match: re.Match[str]) -> str:
        word = values[match[2]]
        if match[1] and match[3]:
            import json

            return json.dumps(word, ensure_ascii=False).replace("\x7f", "\\u007f")  # not in TOML
        return match[1] + word + match[3]

    return re.sub(rf'("?)\{{({"|".join(values)})\}}("?)', value, text)
