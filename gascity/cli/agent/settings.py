"""Settings as people and programs read them: the value, where it stands, what it covers."""

import sys
from collections.abc import Mapping

import click

from gascity.cli.problems import Locator
from gascity.model.layers import Setting
from gascity.model.secrets import masked

reveal_option = click.option("--reveal", is_flag=True, help="Show secrets (on a terminal only).")


def may_reveal(reveal: bool) -> bool:
    """Secrets are for eyes, not for pipes."""
    if reveal and not sys.stdout.isatty():
        raise click.UsageError("--reveal works on a terminal only")
    return reveal


def setting_json(setting: Setting, locator: Locator, reveal: bool) -> dict[str, object]:
    """One setting as `agent show`, `agent explain` and `provider show` give it."""
    line, _ = locator.line_col(setting.place)
    value = setting.value if reveal else masked(setting.value)
    return {
        "value": value,
        "file": setting.place.file if setting.place else None,
        "line": line,
        "layer": setting.kind,
    }


def value_text(setting: Setting, reveal: bool = False) -> str:
    """A value as TOML would write it."""
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
    """`agents/mayor/agent.toml:3 (definition)`."""
    place = setting.place
    if place is None:
        return setting.kind
    line, _ = locator.line_col(place)
    return f"{place.file}:{line} ({setting.kind})" if line else f"{place.file} ({setting.kind})"
