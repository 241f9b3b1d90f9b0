"""`city init`: a city that works, in one command and without a question."""

import os
from collections.abc import Iterator

import click

from gascity.apply.files import create, locked
from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.machine_files import refresh, tree
from gascity.cli.provider import find_program
from gascity.model.city import City
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.pipeline import open_city, surroundings
from gascity.resources import data_dir
from gascity.source.disk import Disk
from gascity.source.edit import set_fields
from gascity.source.providers import read_provider

# Who stands first when several are installed.
_PREFERRED = ("claude", "codex", "gemini", "opencode", "copilot")
_IGNORED = ".gc/\ncity.local.toml\n"
_SEE = "city agent list"
_CITY = """\
#:schema .gc/schemas/city.schema.json
# This city: providers, defaults, rigs and patches. Agents are folders under agents/.

[workspace]
"""


@click.command()
@click.argument("path", default=".")
@click.option(
    "--provider",
    "providers",
    multiple=True,
    metavar="NAME",
    help="Provider to configure; the first is the default. Else what is installed.",
)
@click.option("--name", metavar="NAME", help="The city's name; else the directory's.")
@click.option("--example", is_flag=True, help="Begin with the example city.")
@click.option("--unrestricted", is_flag=True, help="Let agents run without asking for anything.")
@json_option
@pass_context
def init(
    context: Context,
    path: str,
    providers: tuple[str, ...],
    name: str | None,
    example: bool,
    unrestricted: bool,
) -> int:
    """Make a city in PATH (here, if none is given).

    Nothing that is there is overwritten; a second run says so. No network, no questions.
    """
    root = os.path.normpath(os.path.join(context.cwd, os.path.expanduser(path)))
    _check(context, root, providers, name)
    if os.path.lexists(os.path.join(root, "city.toml")):
        open_city(root, context.environ)  # a city that cannot be read is not added to
    files = _example_files() if example else {}
    if not example:
        chosen = providers or _installed(context)
        files["city.toml"] = (_city_toml(root, chosen, name, unrestricted).encode(), 0o644)
        files[".gitignore"] = (_IGNORED.encode(), 0o644)
    os.makedirs(root, exist_ok=True)
    with locked(root):
        made, kept = _write(root, files)
        refresh(root, open_city(root, context.environ))
    context.chosen = root
    city = open_city(root, context.environ)
    answer = {
        "root": root,
        "name": city.name,
        "created": made,
        "kept": kept,
        "providers": list(city.configured),
    }
    context.say(answer, lambda: _lines(context, city, root, made, kept))
    return 0


def _check(context: Context, root: str, providers: tuple[str, ...], name: str | None) -> None:
    above = root
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise CityError(
            Problem(
                "not-a-directory",
                f"{above} is not a directory",
                None,
                "name a directory, or one that is not there yet",
            )
        )
    known = surroundings(context.environ).provider_files
    for provider in providers:
        if provider not in known:
            raise CityError(
                Problem(
                    "unknown-provider",
                    f"there is no provider `{provider}`",
                    None,
                    did_you_mean(provider, known) or f"there are: {', '.join(sorted(known))}",
                )
            )
    if name is not None and (not name.strip() or not name.isprintable()):
        raise CityError(Problem("bad-name", "a city's name is one line of text", None))


def _installed(context: Context) -> tuple[str, ...]:
    """Providers whose program is on PATH, or claude, so that the next message can say so."""
    files = surroundings(context.environ).provider_files
    order = [*_PREFERRED, *(name for name in sorted(files) if name not in _PREFERRED)]
    disk = Disk(context.cwd)
    found = []
    for name in order:
        layer = read_provider(disk, files[name]) if name in files and name != "shell" else None
        if layer is not None and not layer.values.get("settings_only"):
            if find_program(str(layer.values.get("command", "")), context):
                found.append(name)
    return tuple(found) or ("claude",)


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


def _example_files() -> dict[str, tuple[bytes, int]]:
    return dict(tree(data_dir("example_city"), ""))


def _write(root: str, files: dict[str, tuple[bytes, int]]) -> tuple[list[str], list[str]]:
    made: list[str] = []
    kept: list[str] = []
    for file, (data, mode) in files.items():
        # 0o755 or 0o644: the modes of an installed package are its installer's, not ours.
        plain = 0o755 if mode & 0o100 else 0o644
        (made if create(os.path.join(root, file), data, plain) else kept).append(file)
    return made, kept


def _lines(
    context: Context, city: City, root: str, made: list[str], kept: list[str]
) -> Iterator[str]:
    if made:
        yield f"Made city {city.name} in {root}:"
        yield from (f"  {file}" for file in made[:12])
        if len(made) > 12:
            yield f"  … and {len(made) - 12} more files"
    if kept:
        yield (
            f"Already there, left as {'it is' if len(kept) == 1 else 'they are'}: "
            + ", ".join(kept[:6])
            + (f" and {len(kept) - 6} more" if len(kept) > 6 else "")
        )
    for name in city.configured:
        command = city.providers[name].text("command") if name in city.providers else name
        if command and not find_program(command, context):
            yield f"Provider {name}: `{command}` is not on PATH yet"
        else:
            yield f"Provider {name}: installed"
    from shlex import quote

    there = os.path.relpath(root, context.cwd)
    there = root if there.startswith("../") else there  # nobody wants to count directories
    step = "" if root == context.cwd else f"cd {quote(there)} && "
    yield f"Next: {step}{_first_step(city)}"


def _first_step(city: City) -> str:
    """See it work where nothing was written yet; else see what is there."""
    bare = all(agent.layer == "built-in" for agent in city.agents)
    can_run = any(str(agent.name) == "shell" for agent in city.agents)
    return "city sling shell 'echo hello from $(pwd)' --wait" if bare and can_run else _SEE
