"""`city init`: create a working city without asking questions."""

import os
from collections.abc import Iterator

import click

from gascity.cli.city_files import refresh, tree
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.problems import city_error
from gascity.files import create_file, locked
from gascity.model.city import City
from gascity.model.names import did_you_mean
from gascity.paths import which
from gascity.pipeline import external_paths, open_city
from gascity.resources import data_dir
from gascity.source.disk import Disk
from gascity.source.providers import read_provider
from gascity.toml.edit import set_fields

# The default provider is the first of these that is installed.
_PREFERRED = ("claude", "codex", "gemini", "opencode", "copilot")
_IGNORED = ".gc/\ncity.local.toml\n"
_SEE = "city agent list"
_CITY = """\
#:schema .gc/schemas/city.schema.json
# This city: providers, defaults, rigs and patches. Agents are folders under agents/.

[workspace]
"""


@json_command(
    examples=("city init", "city init shop --provider claude", "city init --example"),
    page="tutorial/index",
)
@click.argument("path", default=".")
@click.option(
    "--provider",
    "providers",
    multiple=True,
    metavar="NAME",
    help="Provider to configure; the first is the default (default: those installed).",
)
@click.option("--name", metavar="NAME", help="City name (default: the directory name).")
@click.option("--example", is_flag=True, help="Start from the example city.")
@click.option("--unrestricted", is_flag=True, help="Skip all permission prompts (dangerous).")
def init(
    context: CommandContext,
    path: str,
    providers: tuple[str, ...],
    name: str | None,
    example: bool,
    unrestricted: bool,
) -> int:
    """Create a city in a directory.

    PATH defaults to the current directory. Existing files are kept. Needs no network.
    """
    root = context.path(path)
    _check(context, root, providers, name)
    if os.path.lexists(os.path.join(root, "city.toml")):
        open_city(root, context.environ)  # raises for a city that cannot be read
    files = dict(tree(data_dir("example_city"), "")) if example else {}
    if not example:
        chosen = providers or _installed(context)
        files["city.toml"] = (_city_toml(root, chosen, name, unrestricted).encode(), 0o644)
        files[".gitignore"] = (_IGNORED.encode(), 0o644)
    os.makedirs(root, exist_ok=True)
    with locked(root):
        created, kept = _write(root, files)
        refresh(root, open_city(root, context.environ))
    context.city_option = root
    city = open_city(root, context.environ)
    answer = {
        "root": root,
        "name": city.name,
        "created": created,
        "kept": kept,
        "providers": list(city.configured),
    }
    return context.output(answer, lambda: _lines(context, city, root, created, kept))


def _check(
    context: CommandContext, root: str, providers: tuple[str, ...], name: str | None
) -> None:
    above = root
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        hint = "name an existing or a new directory"
        raise city_error("not-a-directory", f"{above} is not a directory", hint)
    known = external_paths(context.environ).provider_files
    for provider in providers:
        if provider not in known:
            hint = did_you_mean(provider, known) or f"known providers: {', '.join(sorted(known))}"
            raise city_error("unknown-provider", f"there is no provider `{provider}`", hint)
    if name is not None and (not name.strip() or not name.isprintable()):
        raise city_error("bad-name", "a city name must be one line of text")


def _installed(context: CommandContext) -> tuple[str, ...]:
    """Return the installed providers; claude if there is none, so that the user learns how."""
    files = external_paths(context.environ).provider_files
    order = [*_PREFERRED, *(name for name in sorted(files) if name not in _PREFERRED)]
    disk = Disk(context.cwd)
    installed = []
    for name in order:
        layer = read_provider(disk, files[name]) if name in files and name != "shell" else None
        if layer is not None and not layer.values.get("settings_only"):
            if which(str(layer.values.get("command", "")), context.environ, context.cwd):
                installed.append(name)
    return tuple(installed) or ("claude",)


def _city_toml(root: str, providers: tuple[str, ...], name: str | None, unrestricted: bool) -> str:
    fields: dict[str, object | None] = {
        "workspace.name": name or os.path.basename(root) or "city",
        "workspace.provider": providers[0],
    }
    text = set_fields(_CITY, fields)
    for provider in providers if unrestricted else providers[1:]:
        text += f'\n[providers.{provider}]\nbase = "builtin:{provider}"\n'
        if unrestricted:
            text += 'option_defaults = { permission_mode = "unrestricted" }\n'
    return text


def _write(root: str, files: dict[str, tuple[bytes, int]]) -> tuple[list[str], list[str]]:
    created: list[str] = []
    kept: list[str] = []
    for file, (data, mode) in files.items():
        # 0o755 or 0o644: the modes of installed files depend on the installer's umask.
        plain = 0o755 if mode & 0o100 else 0o644
        (created if create_file(os.path.join(root, file), data, plain) else kept).append(file)
    return created, kept


def _lines(
    context: CommandContext, city: City, root: str, created: list[str], kept: list[str]
) -> Iterator[str]:
    if created:
        yield f"Created city {city.name} in {root}:"
        yield from (f"  {file}" for file in created[:12])
        if len(created) > 12:
            yield f"  … and {len(created) - 12} more files"
    if kept:
        yield (
            "Kept (already exists): "
            + ", ".join(kept[:6])
            + (f" and {len(kept) - 6} more" if len(kept) > 6 else "")
        )
    for name in city.configured:
        command = city.providers[name].facts.command if name in city.providers else name
        if command and not which(command, context.environ, context.cwd):
            yield f"Provider {name}: `{command}` is not on PATH"
        else:
            yield f"Provider {name}: installed"
    from shlex import quote

    path = os.path.relpath(root, context.cwd)
    path = root if path.startswith("../") else path
    step = "" if root == context.cwd else f"cd {quote(path)} && "
    yield f"Next: {step}{_first_step(city)}"


def _first_step(city: City) -> str:
    """Suggest running the shell agent in a new city, else listing the agents."""
    bare = all(agent.layer == "built-in" for agent in city.agents)
    can_run = any(str(agent.name) == "shell" for agent in city.agents)
    return "city sling shell 'echo hello from $(pwd)' --wait" if bare and can_run else _SEE
