"""`city init`: create a working city without asking questions."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from shlex import quote
from typing import NamedTuple

import click

from gascity.cli.city_files import refresh, tree
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext
from gascity.cli.problems import city_error
from gascity.cli.rig import register_rig
from gascity.files import create_file, locked, replace_file
from gascity.location import has_commit
from gascity.model.city import City
from gascity.model.names import did_you_mean, is_rig_name
from gascity.paths import CITY_FILE, city_register, git_top, known_cities, which
from gascity.pipeline import external_paths, open_city
from gascity.resources import data_dir
from gascity.source.agents import PROMPTS
from gascity.source.disk import Disk, read_plain
from gascity.source.providers import read_provider
from gascity.toml.edit import declare_rig, set_fields

# The default provider is the first of these that is installed.
_PREFERRED = ("claude", "codex", "gemini", "opencode", "copilot")
_IGNORED = (".gc/", "city.local.toml")
# Directories that a city reads, and the files by which a folder in them is recognised. The content
# of the others looks like any project's.
_CITY_DIRECTORIES = (
    ("agents", ("agent.toml", *PROMPTS)),
    ("skills", ("SKILL.md",)),
    *((name, ()) for name in ("overlay", "mcp", "template-fragments", "hud")),
    *((name, ()) for name in ("commands", "doctor", "formulas", "orders")),
)
# Where providers keep what `city import` reads.
_TOOL_FILES = ("agents.directory", "skills.directory", "mcp.target")
_SEE = "city agent list"
_CITY = """\
#:schema .gc/schemas/city.schema.json
# This city: providers, defaults, rigs and patches. Agents are folders under agents/.

[workspace]
"""
_TOOLS = """
# [imports.tools]
# source = "builtin:tools"   # agents may message each other: agents_message, agents_list …
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

    PATH defaults to the current directory. Inside a git repository, the repository
    becomes a rig of the city. Existing files are kept. Needs no network.
    """
    root = context.path(path)
    _check(context, root, providers, name)
    new = not os.path.lexists(os.path.join(root, CITY_FILE))
    repository = _repository(context, root) if new and not example else None
    if repository:
        _check_names(root, repository)
    if not new:
        open_city(root, context.environ)  # raises for a city that cannot be read
    files = dict(tree(data_dir("example_city"), "")) if example else {}
    if not example:
        chosen = providers or _installed(context)
        text = _city_toml(root, chosen, name, unrestricted)
        if repository:
            where = os.path.relpath(repository, root)
            text = declare_rig(text, _rig_name(repository), {"path": where})
        files[CITY_FILE] = (text.encode(), 0o644)
        files[".gitignore"] = ("".join(f"{line}\n" for line in _IGNORED).encode(), 0o644)
    os.makedirs(root, exist_ok=True)
    with locked(root):
        created, kept = _write(root, files)
        changed = [".gitignore"] if ".gitignore" in kept and _ignore_state(root) else []
        kept = [file for file in kept if file not in changed]
        refresh(root, open_city(root, context.environ))
    if repository and repository != root:
        register_rig(context.environ, os.path.realpath(repository), root)
    _register(context, root)
    context.city_option = root
    city = open_city(root, context.environ)
    importable = _importable(context, repository) if repository else []
    answer = {
        "root": root,
        "name": city.name,
        "created": created,
        "changed": changed,
        "kept": kept,
        "providers": list(city.configured),
        "rig": _rig_name(repository) if repository else None,
        "importable": importable,
    }
    written = _Written(created, changed, kept)
    return context.output(answer, lambda: _lines(context, city, written, repository, importable))


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


def _repository(context: CommandContext, root: str) -> str | None:
    """Return the git repository around a directory. A home directory in git is not a project."""
    top = git_top(root)
    home = os.path.realpath(context.environ.get("HOME", "/"))
    return top if top is not None and os.path.realpath(top) != home else None


def _register(context: CommandContext, root: str) -> None:
    """Remember the city, so that `city rig add` finds it from anywhere; failing is not fatal."""
    cities = known_cities(context.environ)
    if root not in cities:
        text = "".join(f"{city}\n" for city in (*cities, root))
        with suppress(OSError):
            replace_file(city_register(context.environ), text.encode("utf-8", "surrogateescape"))


def _check_names(root: str, repository: str) -> None:
    """Raise CityError if the project uses a directory name that has a meaning in a city.

    The files there would become agents, skills or overlays.
    """
    taken = [name for name, files in _CITY_DIRECTORIES if _other_content(f"{root}/{name}", files)]
    if taken:
        names = ", ".join(f"{name}/" for name in taken)
        verb = "has" if len(taken) == 1 else "have"
        here, there = f"../{os.path.basename(repository)}", f"../{os.path.basename(root)}-city"
        raise city_error(
            "name-in-use",
            f"{names} {verb} a meaning in a city, but {root} already uses "
            f"{'it' if len(taken) == 1 else 'them'} for other files",
            "create the city beside the project: "
            f"`city init {quote(there)} && cd {quote(there)} && city rig add {quote(here)}`",
        )


def _other_content(directory: str, markers: tuple[str, ...]) -> bool:
    """Return whether a directory holds anything but folders with one of the marker files."""
    try:
        names = [name for name in os.listdir(directory) if not name.startswith(".")]
    except OSError:
        return False
    return not all(
        any(os.path.exists(f"{directory}/{name}/{marker}") for marker in markers) for name in names
    )


def _rig_name(repository: str) -> str:
    """Return the directory's name, without characters that a rig's name cannot have."""
    name = os.path.basename(repository)
    if not is_rig_name(name):
        name = "".join(char if is_rig_name(f"a{char}a") else "-" for char in name).strip("-._")
    return name if is_rig_name(name) else "project"


def _ignore_state(root: str) -> bool:
    """Add the city's local files to an existing .gitignore; return whether it changed."""
    file = os.path.join(root, ".gitignore")
    if os.path.islink(file) or not os.path.isfile(file):
        return False
    text = (read_plain(file) or b"").decode("utf-8", "surrogateescape")
    present = {line.strip().strip("/") for line in text.splitlines()}
    missing = [line for line in _IGNORED if line.strip("/") not in present]
    if missing:
        text += "" if not text or text.endswith("\n") else "\n"
        text += "".join(f"{line}\n" for line in missing)
        replace_file(file, text.encode("utf-8", "surrogateescape"))
    return bool(missing)


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


def _importable(context: CommandContext, repository: str) -> list[str]:
    """Return the repository's own agents, skills and MCP servers for the tools it is used with."""
    paths: set[str] = set()
    disk = Disk(context.cwd)
    for file in external_paths(context.environ).provider_files.values():
        layer = read_provider(disk, file)
        values = layer.values if layer is not None else {}
        paths.update(str(values[key]) for key in _TOOL_FILES if key in values)
    return sorted(path for path in paths if os.path.exists(f"{repository}/{path}"))


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
    return text + _TOOLS


def _write(root: str, files: dict[str, tuple[bytes, int]]) -> tuple[list[str], list[str]]:
    created: list[str] = []
    kept: list[str] = []
    for file, (data, mode) in files.items():
        # 0o755 or 0o644: the modes of installed files depend on the installer's umask.
        plain = 0o755 if mode & 0o100 else 0o644
        (created if create_file(os.path.join(root, file), data, plain) else kept).append(file)
    return created, kept


class _Written(NamedTuple):
    """The files of a new city: created, changed, and kept as they were."""

    created: list[str]
    changed: list[str]
    kept: list[str]


def _lines(
    context: CommandContext,
    city: City,
    written: _Written,
    repository: str | None,
    importable: Sequence[str],
) -> Iterator[str]:
    root, (created, changed, kept) = city.root, written
    if created:
        yield f"Created city {city.name} in {root}:"
        yield from (f"  {file}" for file in created[:12])
        if len(created) > 12:
            yield f"  … and {len(created) - 12} more files"
    if changed:
        yield f"Updated: {', '.join(changed)} (added {', '.join(_IGNORED)})"
        if repository:  # `city work merge` refuses a checkout with uncommitted changes
            yield "  Commit it before you merge work."
    if kept:
        yield (
            "Kept (already exists): "
            + ", ".join(kept[:6])
            + (f" and {len(kept) - 6} more" if len(kept) > 6 else "")
        )
    if repository:
        yield from _rig_lines(city, _rig_name(repository), repository, importable)
    for name in city.configured:
        command = city.providers[name].facts.command if name in city.providers else name
        if command and not which(command, context.environ, context.cwd):
            yield f"Provider {name}: `{command}` is not on PATH"
        else:
            yield f"Provider {name}: installed"
    if created and all(agent.layer == "built-in" for agent in city.agents):
        yield "More agents: `city agent new NAME`, or `city pack add builtin:roles`"
    path = os.path.relpath(root, context.cwd)
    path = root if path.startswith("../") else path
    step = "" if root == context.cwd else f"cd {quote(path)} && "
    yield f"Next: {step}{_first_step(city)}"


def _rig_lines(city: City, rig: str, repository: str, importable: Sequence[str]) -> Iterator[str]:
    yield f"Rig {rig}: {repository}"
    if has_commit(Disk(city.root), repository):
        yield "  Each work item runs in a git worktree of its own, on its own branch."
    else:
        yield "  It has no commit yet: agents work in the directory itself until it has one."
    if importable:
        yield f"  It has {', '.join(importable)}; to use them with any provider: `city import`"


def _first_step(city: City) -> str:
    """Suggest running the shell agent in a new city, else listing the agents."""
    bare = all(agent.layer == "built-in" for agent in city.agents)
    can_run = any(str(agent.name) == "shell" for agent in city.agents)
    return "city sling shell 'echo hello from $(pwd)' --wait" if bare and can_run else _SEE
