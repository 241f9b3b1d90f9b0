"""`city agent new`, `set` and `rename`: edits that keep comments and layout."""

import os
from collections.abc import Iterator, Mapping

import click

from gascity.apply.files import create, locked, refuse_links, replace_all
from gascity.cli.context import Context, agent_argument, json_option, pass_context
from gascity.cli.edits import new_errors, own_files, read_text, refuse, write_if_sound
from gascity.compose.city import packs_of
from gascity.model.city import Agent, City
from gascity.model.fields import AGENT, Kind
from gascity.model.names import (
    Named,
    did_you_mean,
    is_name,
    parse_name,
    resolve,
    several,
    unknown_rig,
)
from gascity.model.problems import CityError
from gascity.pipeline import open_city, surroundings
from gascity.source.disk import read_plain
from gascity.source.edit import rename_references, set_fields, set_patch

_PROMPT = """\
# {title}

You are {name}.{about}

Say here what {name} does, how it works, and when it is done.
"""


def _check_new_name(root: str, name: str, old: str = "") -> str:
    """The directory of an agent that does not exist yet; `old` is about to go."""
    if not is_name(name):
        raise refuse(
            "bad-name",
            f"`{name}` cannot be an agent's name",
            "use letters, digits, - and _, beginning with a letter or digit",
        )
    home = os.path.join(root, "agents")
    taken = os.listdir(home) if os.path.isdir(home) else []
    for other in taken:
        if other.lower() == name.lower() and (other != old or name == old):
            raise refuse("duplicate-name", f"agents/{other} is there already")
    return os.path.join(home, name)


@click.command("new")
@click.argument("name")
@click.option("--description", metavar="TEXT", help="One line: what the agent is for.")
@click.option("--provider", metavar="NAME", help="Provider that runs it.")
@click.option("--template", is_flag=True, help="Begin with a prompt template.")
@json_option
@pass_context
def new_agent(
    context: Context, name: str, description: str | None, provider: str | None, template: bool
) -> int:
    """Make a folder for a new agent."""
    root = context.root
    directory = _check_new_name(root, name)
    known = open_city(root, context.environ, all_providers=True).providers
    if provider is not None and provider not in known:
        raise refuse(
            "unknown-provider", f"there is no provider `{provider}`", did_you_mean(provider, known)
        )
    about = f" {description}" if description else ""
    files = {
        "prompt.template.md" if template else "prompt.md": _PROMPT.format(
            title=name.replace("-", " ").replace("_", " ").capitalize(), name=name, about=about
        ),
        "agent.toml": _agent_toml(description, provider),
    }
    with locked(root):
        refuse_links(root, f"{directory}/prompt.md")
        for file, text in files.items():
            create(os.path.join(directory, file), text.encode())
    made = [f"agents/{name}/{file}" for file in files]
    context.say({"name": name, "created": made}, lambda: _made(made, name))
    return 0


def _agent_toml(description: str | None, provider: str | None) -> str:
    text = "#:schema ../../.gc/schemas/agent.schema.json\n"
    return set_fields(
        text,
        {
            key: value
            for key, value in (("description", description), ("provider", provider))
            if value
        },
    )


def _made(files: list[str], name: str) -> Iterator[str]:
    yield "Made:"
    yield from (f"  {file}" for file in files)
    yield f"Next: edit {files[0]}, then `city agent show {name}`"


@click.command("set")
@agent_argument
@click.argument("assignments", nargs=-1, metavar="FIELD=VALUE...")
@click.option("--unset", multiple=True, metavar="FIELD", help="Go back to what is inherited.")
@json_option
@pass_context
def set_agent(
    context: Context, agent: str, assignments: tuple[str, ...], unset: tuple[str, ...]
) -> int:
    """Change settings of an agent where they belong.

    Your own agent's are written to its agent.toml; for an imported or built-in one a patch in
    city.toml; for RIG/AGENT a patch of that rig. Values are TOML; a bare word is a string.
    """
    changes = _changes(assignments, unset)
    root = context.root
    with locked(root):
        city = open_city(root, context.environ)
        one = _definition(context, city, agent)
        file, text = _edited(city, one, parse_name(agent).rig, changes)
        write_if_sound(context, city, {file: text})
    names = ", ".join(changes)
    shown = agent if parse_name(agent).rig else one.name
    context.say(
        {"agent": agent, "file": file, "fields": list(changes)},
        lambda: [f"{file}: {names} changed; `city agent explain {shown}` shows it"],
    )
    return 0


def _changes(assignments: tuple[str, ...], unset: tuple[str, ...]) -> dict[str, object | None]:
    changes: dict[str, object | None] = {_known_key(name): None for name in unset}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"`{assignment}` should be FIELD=VALUE")
        key = _known_key(name.strip())
        changes[key] = _value(text.strip(), _wants_text(key))
    if not changes:
        raise click.UsageError("nothing to change: give FIELD=VALUE or --unset FIELD")
    return changes


def _known_key(name: str) -> str:
    head, _, rest = name.partition(".")
    field = AGENT.fields.get(head)
    if name in AGENT.keys or (rest and field and field.kind in (Kind.STRING_MAP, Kind.ANY_MAP)):
        return name
    raise refuse(
        "unknown-field", f"`{name}` is not an agent setting", did_you_mean(name, AGENT.keys)
    )


def _wants_text(key: str) -> bool:
    """Is the value one of a table of strings, so that `env.CI=1` means "1"?"""
    head, _, rest = key.partition(".")
    return bool(rest) and key not in AGENT.keys and AGENT.fields[head].kind is Kind.STRING_MAP


def _value(text: str, as_text: bool) -> object:
    """A value as TOML; what is none, or may only be a string, is a string as it stands."""
    from gascity.source.toml import TomlFault, parse

    try:
        value = parse(f"value = {text}".encode())["value"]
    except TomlFault:
        return text
    return text if as_text and not isinstance(value, str) else value


def _edited(
    city: City, one: Agent, rig: str | None, changes: Mapping[str, object | None]
) -> tuple[str, str]:
    """The file that says it, and its new text."""
    if rig is None and one.layer not in ("pack", "built-in"):
        file = f"{one.home.directory}/agent.toml"
        return file, set_fields(read_text(city.root, file), _spelled(one, file, changes))
    text = read_text(city.root, "city.toml")
    wanted = _spelled(one, "city.toml", changes)
    try:
        return "city.toml", set_patch(text, one.name.without_rig, wanted, rig=rig)
    except LookupError:
        raise CityError(unknown_rig(rig or "", [r.name for r in city.rigs])) from None


def _spelled(
    one: Agent, file: str, changes: Mapping[str, object | None]
) -> Mapping[str, object | None]:
    """`model` is changed where the file has it: some write it among the option_defaults."""
    setting = one.setting("model")
    here = setting.layer is not None and setting.layer.file == file
    if "model" not in changes or not here or setting.place is None:
        return changes
    if setting.place.path[-2:] != ("option_defaults", "model"):
        return changes
    return {"option_defaults.model" if k == "model" else k: v for k, v in changes.items()}


def _definition(context: Context, city: City, reference: str) -> Agent:
    """The agent a reference means, whatever rigs it lives in."""
    wanted = parse_name(reference).without_rig
    definitions = {agent.name.without_rig: agent for agent in city.agents}
    things = [Named(a.name.in_rig(None), a.rank, a) for a in definitions.values()]
    found = resolve(wanted, things)
    if found.found is not None:
        return found.found
    if not found.candidates and wanted in surroundings(context.environ).provider_files:
        return context.agent(wanted)[1]
    if found.candidates:
        raise CityError(several(reference, found.candidates))
    raise refuse(
        "unknown-agent",
        f"there is no agent `{reference}`",
        did_you_mean(reference, definitions) or "`city agent list` shows what there is",
    )


@click.command("rename")
@agent_argument
@click.argument("new")
@json_option
@pass_context
def rename_agent(context: Context, agent: str, new: str) -> int:
    """Rename one of your own agents, and every reference to it in the city's files."""
    root = context.root
    with locked(root):
        city = open_city(root, context.environ)
        one = _definition(context, city, agent)
        if one.layer != "city":
            raise refuse(
                "not-your-agent",
                f"`{one.name}` is not the city's own",
                "only agents under agents/ can be renamed",
            )
        target = _check_new_name(root, new, one.name.bare)
        changed = _renamed_files(city, one.name.bare, new)
        texts = {file: text for file, (text, _) in changed.items()}
        _move(context, city, one.home.directory, target, texts)
    rows: list[dict[str, object]] = [
        {
            "file": _moved(file, one.home.directory, f"agents/{new}"),
            "keys": [".".join(map(str, path)) for path in paths],
        }
        for file, (_, paths) in changed.items()
    ]
    answer = {"from": one.home.directory, "to": f"agents/{new}", "references": rows}
    context.say(answer, lambda: _renamed_lines(one.home.directory, f"agents/{new}", rows))
    return 0


def _move(
    context: Context, city: City, directory: str, target: str, texts: Mapping[str, str]
) -> None:
    """Rename the folder and rewrite what names it; everything goes back if that breaks the city."""
    source = os.path.join(city.root, directory)
    files = {_moved(os.path.join(city.root, f), source, target): t for f, t in texts.items()}
    os.rename(source, target)
    before = {path: read_plain(path) or b"" for path in files}
    try:
        replace_all({path: text.encode() for path, text in files.items()})
        fresh = new_errors(city, open_city(city.root, context.environ))
        # In a city that was broken before, an old error may just have moved with the folder.
        if fresh and not any(problem.is_error for problem in city.everything_wrong):
            replace_all(before)
            raise CityError(*fresh)
    except BaseException:
        os.rename(target, source)
        raise


def _moved(path: str, source: str, target: str) -> str:
    return target + path[len(source) :] if path.startswith(source + "/") else path


def _renamed_files(
    city: City, old: str, new: str
) -> dict[str, tuple[str, list[tuple[str | int, ...]]]]:
    """The city's own files that name the agent, with their new texts."""
    own = [pack for pack in packs_of(city) if pack.own]
    files = own_files(city.root)
    files += [f"{home.directory}/agent.toml" for pack in own for home in pack.agents]
    found = {}
    for file in files:
        text = read_text(city.root, file)
        if old in text:
            changed, paths = rename_references(text, old, new)
            if paths:
                found[file] = (changed, paths)
    return found


def _renamed_lines(source: str, target: str, rows: list[dict[str, object]]) -> Iterator[str]:
    yield f"{source} is now {target}"
    for row in rows:
        keys = row["keys"]
        yield f"  {row['file']}: {', '.join(keys) if isinstance(keys, list) else ''}"
