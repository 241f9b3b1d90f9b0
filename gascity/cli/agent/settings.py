"""Settings as text and JSON: the value, its file and line, its layer."""

import sys
from collections.abc import Mapping

import click

from gascity.cli.problems import Locator
from gascity.model.layers import Setting
from gascity.model.secrets import masked

reveal_option = click.option("--reveal", is_flag=True, help="Show secrets (terminal only).")


def may_reveal(reveal: bool) -> bool:
    """Return whether to show secrets; UsageError if stdout is not a terminal."""
    if reveal and not sys.stdout.isatty():
        raise click.UsageError("--reveal needs a terminal")
    return reveal


def setting_json(setting: Setting, locator: Locator, reveal: bool) -> dict[str, object]:
    """Return a setting as its JSON object."""
    line, _ = locator.line_col(setting.place)
    value = setting.value if reveal else masked(setting.value)
    return {
        "value": value,
        "file": setting.place.file if setting.place else None,
        "line": line,
        "layer": setting.kind,
    }


def value_text(setting: Setting, reveal: bool = False) -> str:
    """Return a value in TOML syntax."""
    return _toml(setting.value if reveal else masked(setting.value))


def _toml(value: object) -> str:
    match value:
        case None:
            return "(unset)"
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case list() | tuple():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case Mapping():
            pairs = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    return str(value)


def where(setting: Setting, locator: Locator) -> str:
    """Return `agents/mayor/agent.toml:3 (definition)`."""
    place = setting.place
    if place is None:
        return setting.kind
    line, _ = locator.line_col(place)
    return f"{place.file}:{line} ({setting.kind})" if line else f"{place.file} ({setting.kind})"
