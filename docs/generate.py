"""Write what is generated: JSON schemas and reference pages. `--check` only compares."""

import json
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import jinja2
from json_schemas import all_schemas
from settings_module import keys_module, settings_module

from gascity.cli.main import city
from gascity.mcp.delivery import can_launch
from gascity.model.fields import (
    AGENT,
    Edit,
    Field,
    Kind,
    Table,
)
from gascity.model.provider import Provider
from gascity.model.tables import (
    AGENT_NOT_ACTED_ON,
    CITY_NOT_ACTED_ON,
    IMPORT,
    MCP_SERVER,
    NAMED_SESSION,
    NOT_ACTED_ON,
    NOTIFY,
    PACK,
    PATCHES_NOT_ACTED_ON,
    PROVIDER,
    RIG,
    SECURITY,
    SESSION,
    TEMPLATES,
    WORKSPACE,
)
from gascity.pipeline import open_city
from gascity.render.hud import HUD_VARIABLES
from gascity.render.variables import BUILTIN_FRAGMENTS, VARIABLES

ROOT = Path(__file__).resolve().parent.parent
PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(ROOT / "docs" / "templates"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


def files() -> Iterator[tuple[Path, str]]:
    """Every generated file with the text it should have."""
    yield ROOT / "gascity" / "model" / "settings.py", settings_module()
    yield ROOT / "gascity" / "model" / "setting_keys.py", keys_module()
    for name, schema in all_schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        yield ROOT / "gascity" / "schemas" / name, text
    reference = ROOT / "docs" / "reference"
    yield reference / "settings.md", page("settings.md.j2", **tables())
    yield (
        reference / "variables.md",
        page("variables.md.j2", variables=VARIABLES, reserved=BUILTIN_FRAGMENTS, hud=HUD_VARIABLES),
    )
    yield reference / "commands.md", page("commands.md.j2", commands=list(commands()))
    shipped = stock_providers()
    yield (
        reference / "providers.md",
        page(
            "providers.md.j2",
            providers=[provider_row(one) for one in shipped],
            furniture=[furniture_row(one) for one in shipped if one.facts.skills.directory],
            servers=[server_row(one) for one in shipped if one.facts.mcp.target],
            options=[row for one in shipped for row in option_rows(one)],
            terminals=[terminal_row(one) for one in shipped if one.facts.interactive],
            observed=list(observed_rows(shipped)),
        ),
    )


def page(template: str, **values: object) -> str:
    return PAGES.get_template(template).render(**values)


def tables() -> Mapping[str, object]:
    return {
        "agent": rows(AGENT),
        "provider": rows(PROVIDER),
        "others": {
            "[workspace]": rows(WORKSPACE),
            "[[rigs]]": rows(RIG),
            "[imports.<binding>]": rows(IMPORT),
            "[[named_session]]": rows(NAMED_SESSION),
            "[session]": rows(SESSION),
            "[templates]": rows(TEMPLATES),
            "[security]": rows(SECURITY),
            "[notify]": rows(NOTIFY),
            "[pack] in pack.toml": rows(PACK),
            "mcp/<name>.toml": rows(MCP_SERVER),
        },
        "ignored": {
            "agent.toml, defaults and patches": AGENT_NOT_ACTED_ON,
            "city.toml and pack.toml": CITY_NOT_ACTED_ON,
            "[patches]": PATCHES_NOT_ACTED_ON,
            **{f"[{name}]": keys for name, keys in NOT_ACTED_ON.items()},
        },
    }


def rows(table: Table) -> list[dict[str, str]]:
    return [
        {
            "name": field.name,
            "kind": kind(field),
            "default": default(field),
            "merge": field.merge.value + edits(table, field),
            "doc": field.doc.replace("|", "\\|"),
        }
        for field in table.fields.values()
    ]


def kind(field: Field) -> str:
    if field.choices and field.kind is not Kind.DURATION:
        return " ".join(f"`{choice}`" for choice in field.choices if choice)
    return field.kind.value.split(" such as")[0]


def default(field: Field) -> str:
    if field.required:
        return "required"
    return "" if field.default in (None, (), {}) else f"`{json.dumps(field.default)}`"


def edits(table: Table, field: Field) -> str:
    found = [
        f"`{field.name}{edit.value}`"
        for edit in (Edit.APPEND, Edit.REMOVE)
        if field.name + edit.value in table.keys
    ]
    return f"; {', '.join(found)}" if found else ""


def stock_providers() -> list[Provider]:
    """The shipped providers, as a city sees them that changes nothing."""
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "city.toml").touch()
        city = open_city(empty, {"HOME": empty}, all_providers=True)
    return [one for _, one in sorted(city.providers.items())]


def provider_row(one: Provider) -> dict[str, str]:
    files = [one.facts.instructions_file] if one.launches and one.name != "shell" else []
    return {
        "name": one.name,
        "title": one.facts.display_name,
        "command": code(one.facts.command),
        "headless": "yes" if one.headless else "",
        "instructions": ", ".join(code(file) for file in files),
        "skills": code(one.facts.skills.directory),
        "mcp": code(one.facts.mcp.target),
    }


def furniture_row(one: Provider) -> dict[str, str]:
    return {
        "name": one.name,
        "also": codes(one.facts.skills.also_reads),
        "links": "inside" if one.facts.skills.links == "inside" else "",
        "merged": codes(one.facts.overlay.merge_files),
    }


def server_row(one: Provider) -> dict[str, str]:
    reference = one.facts.mcp.reference
    return {
        "name": one.name,
        "file": codes((one.facts.mcp.target, *one.facts.mcp.also_targets)),
        "transports": " ".join(one.facts.mcp.transports),
        "reference": code(reference),
        "places": " ".join(one.facts.mcp.expands_in) if reference else "",
        "launch": "yes" if can_launch(one) else "",
    }


def terminal_row(provider: Provider) -> dict[str, str]:
    facts = provider.facts
    names = dict.fromkeys(str(dialog["name"]) for dialog in facts.terminal.dialogs)
    typed = facts.terminal.before or facts.terminal.after
    resumes = facts.resume_flag and facts.session_id_flag
    return {
        "name": provider.name,
        "typed": "yes" if typed else "no",
        "dialogs": ", ".join(names) or "–",
        "resumed": "yes" if resumes else "no",
    }


def observed_rows(shipped: Iterable[Provider]) -> Iterator[dict[str, str]]:
    """What was seen with the real programs, by provider with the version that was run."""
    with (ROOT / "docs" / "templates" / "observed.toml").open("rb") as file:
        observed = tomllib.load(file)
    for one in shipped:
        if one.name in observed["providers"]:
            yield {"name": one.name, **observed["providers"][one.name]}


def option_rows(one: Provider) -> Iterator[dict[str, str]]:
    for option in one.options.values():
        words = [code(value) for value in option.values] + (["open"] if option.flag else [])
        yield {
            "provider": one.name,
            "key": option.key,
            "choices": " ".join(dict.fromkeys(words)),
            "default": code(option.default or ""),
        }


def code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    return ", ".join(code(text) for text in texts)


def commands() -> Iterator[dict[str, str]]:
    """The help of every command, as the program prints it."""
    top = click.Context(
        city,
        info_name="city",
        max_content_width=80,
        terminal_width=80,
        help_option_names=["-h", "--help"],
    )
    yield {"name": "city", "help": city.get_help(top)}
    yield from below(city, top)


def below(group: click.Group, context: click.Context) -> Iterator[dict[str, str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        inner = click.Context(
            command, context, info_name=name, max_content_width=80, terminal_width=80
        )
        yield {"name": inner.command_path, "help": command.get_help(inner)}
        if isinstance(command, click.Group):
            yield from below(command, inner)


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = [path for path, text in files() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'is out of date' if check else 'written'}")
    if check:
        return int(bool(stale))
    for path, text in files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
