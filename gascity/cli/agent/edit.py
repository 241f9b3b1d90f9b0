"""`city agent new`, `set`, `rename` and `remove`: edits that preserve comments and formatting."""

import os
import re
import time
from collections.abc import Iterator, Mapping

import click

from gascity.cli.command import json_command
from gascity.cli.completers import complete_field, complete_provider, complete_setting
from gascity.cli.context import CommandContext, agent_argument, require_confirmation
from gascity.cli.edit import editing, new_errors, own_files, read_text, write_if_valid
from gascity.cli.identity import actor, caller
from gascity.cli.output import display_path, plural, print_stderr
from gascity.cli.problems import city_error
from gascity.compose.city import packs_of
from gascity.files import create_directory, locked, refuse_links
from gascity.model.city import Agent, City
from gascity.model.fields import AGENT, Kind
from gascity.model.names import (
    NameCandidate,
    did_you_mean,
    is_name,
    parse_name,
    resolve,
    several,
    unknown_rig,
)
from gascity.model.problems import CityError
from gascity.model.work import CLAIMED, OPEN
from gascity.pipeline import (
    external_paths,
    knowledge_types,
    open_city,
    with_starter_knowledge,
)
from gascity.source.agents import PROFILES
from gascity.source.disk import read_plain
from gascity.toml.edit import rename_references, set_fields, set_patch

_PROMPT = """\
# {title}

You are {name}.{about}
"""

_PROFILE = """\
---
id: {name}
name: {title}{about}
---

# {title}

## Role
{role}

## Config
```json
{config}
```

## Tools
```json
{{}}
```

## MCP Servers
```json
["*"]
```

## Rules
- Say what you did, and what you left out.

## Reflection
"""

_MEMORY = """\

## Memory
What you noted in earlier work. Add a note with `city memory add TEXT --title TITLE`.

{{ template "memory" . }}
"""


def _check_new_name(root: str, name: str, old: str = "") -> str:
    """Return the directory for a new agent name; `old` is the name it replaces."""
    if not is_name(name):
        raise city_error(
            "bad-name",
            f"invalid agent name `{name}`",
            "use letters, digits, - and _; start with a letter or digit",
        )
    home = os.path.join(root, "agents")
    taken = os.listdir(home) if os.path.isdir(home) else []
    for known in taken:
        if known.lower() == name.lower() and (known != old or name == old):
            raise city_error("duplicate-name", f"agents/{known} already exists")
    return os.path.join(home, name)


@json_command(
    "new",
    examples=(
        "city agent new reviewer",
        "city agent new reviewer --provider codex --description 'Reviews changes.'",
        "city agent new builder --type coding",
        "city agent new reviewer --from ~/.claude/agents/reviewer.md",
    ),
    page="how-to/edit",
)
@click.argument("name")
@click.option("--description", metavar="TEXT", help="One line that says what the agent does.")
@click.option(
    "--provider",
    metavar="NAME",
    shell_complete=complete_provider,
    help="Provider that runs the agent.",
)
@click.option("--template", is_flag=True, help="Start from a prompt template.")
@click.option("--profile", is_flag=True, help="Write one profile.md instead of two files.")
@click.option("--type", "kind", metavar="TYPE", help="Start with the knowledge of this type.")
@click.option("--from", "source", metavar="FILE", help="Read an agent file of any tool.")
def new_agent(
    context: CommandContext,
    name: str,
    description: str | None,
    provider: str | None,
    template: bool,
    profile: bool,
    kind: str | None,
    source: str | None,
) -> int:
    """Create an agent.

    --type adds the starter knowledge of a type, such as coding, code-review or qa, and
    a prompt that includes the agent's notes. --from takes prompt and settings from an
    agent file, such as one for Claude Code, OpenCode or Copilot, or from a profile.md.
    """
    root = context.root
    directory = _check_new_name(root, name)
    city = open_city(root, context.environ, all_providers=True)
    known = city.providers
    if kind is not None:
        _check_type(city, kind)
    if provider is not None and provider not in known:
        raise city_error(
            "unknown-provider", f"there is no provider `{provider}`", did_you_mean(provider, known)
        )
    if source is not None:
        if template or profile or kind:
            raise click.UsageError("--from cannot be combined with --template, --profile or --type")
        from gascity.cli.agent.from_file import create_from_file

        given = {"description": description, "provider": provider}
        return create_from_file(
            context, name, source, {key: value for key, value in given.items() if value}
        )
    title = name.replace("-", " ").replace("_", " ").capitalize()
    about = f" {description}" if description else ""
    infix = ".template" if template or kind else ""
    settings = {"provider": provider, "type": kind if kind != name else None}
    settings = {key: value for key, value in settings.items() if value}
    memory = _MEMORY if kind else ""
    if profile:
        text = _profile_text(name, title, description, settings)
        files = {f"profile{infix}.md": text + memory}
    else:
        prompt = _PROMPT.format(title=title, name=name, about=about)
        files = {f"prompt{infix}.md": prompt + memory}
        files["agent.toml"] = _agent_toml({"description": description, **settings})
    with locked(root):
        refuse_links(root, f"{directory}/prompt.md")
        create_directory(directory, {file: text.encode() for file, text in files.items()})
    created = [f"agents/{name}/{file}" for file in files]
    created += _starter_knowledge(context, name) if kind else []
    next_step = f"Next: edit {created[0]}, then `city agent show {name}`"
    return context.output(
        {"name": name, "created": created},
        lambda: ["Created:", *(f"  {file}" for file in created), next_step],
    )


def _check_type(city: City, kind: str) -> None:
    known = knowledge_types(city)
    if kind not in known:
        hint = did_you_mean(kind, known) or f"use one of {', '.join(sorted(known))}"
        raise city_error("unknown-type", f"there is no starter knowledge for `{kind}`", hint)


def _starter_knowledge(context: CommandContext, name: str) -> list[str]:
    """Copy the starter knowledge of a new agent; return the files."""
    city, agent = context.agent(name, exact=True)
    if not with_starter_knowledge(city, [agent]):
        return []
    from gascity.memory.starter import copy_starters, starter_files
    from gascity.source.disk import Disk

    files = starter_files(city, Disk(city.root), [agent])
    return [file.path for file in copy_starters(city.root, files)]


def _profile_text(
    name: str, title: str, description: str | None, settings: Mapping[str, str | None]
) -> str:
    import json

    about = f"\ndescription: {json.dumps(description)}" if description else ""
    config = json.dumps(settings)
    role = description or f"Describe what {name} does, how it works, and when it is done."
    return _PROFILE.format(
        name=name, title=title, about=about, config=config, role=f"You are {name}. {role}"
    )


def _agent_toml(fields: Mapping[str, str | None]) -> str:
    text = "#:schema ../../.gc/schemas/agent.schema.json\n"
    return set_fields(text, {key: value for key, value in fields.items() if value})


@json_command(
    "set",
    examples=(
        "city agent set mayor max_active_sessions=3",
        "city agent set web/mayor model=opus",
        "city agent set mayor --unset model",
    ),
    page="how-to/edit",
)
@agent_argument
@click.argument("assignments", nargs=-1, metavar="FIELD=VALUE...", shell_complete=complete_setting)
@click.option(
    "--unset",
    multiple=True,
    metavar="FIELD",
    shell_complete=complete_field,
    help="Remove the setting and inherit its value.",
)
def set_agent(
    context: CommandContext, agent: str, assignments: tuple[str, ...], unset: tuple[str, ...]
) -> int:
    """Change an agent's settings.

    Edits agent.toml for an agent of this city, a patch in city.toml for an imported
    or built-in one, and the rig's patch for RIG/AGENT. Values are TOML; a bare word
    is a string.
    """
    changes = _changes(assignments, unset)
    with editing(context) as city:
        target = _find_definition(context, city, agent)
        file, text = _edited(city, target, parse_name(agent).rig, changes)
        write_if_valid(context, city, {file: text})
    names = ", ".join(changes)
    shown = agent if parse_name(agent).rig else target.name
    return context.output(
        {"agent": agent, "file": file, "fields": list(changes)},
        lambda: [f"{file}: updated {names}; next: `city agent explain {shown}`"],
    )


def _changes(assignments: tuple[str, ...], unset: tuple[str, ...]) -> dict[str, object | None]:
    changes: dict[str, object | None] = {known_key(name): None for name in unset}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"expected FIELD=VALUE, got `{assignment}`")
        key = known_key(name.strip())
        changes[key] = parse_value(text.strip(), wants_text(key))
    if not changes:
        raise click.UsageError("nothing to change; pass FIELD=VALUE or --unset FIELD")
    return changes


def known_key(name: str) -> str:
    """Return the key of an agent setting; CityError if there is none of that name."""
    head, _, rest = name.partition(".")
    field = AGENT.fields.get(head)
    if name in AGENT.keys or (rest and field and field.kind in (Kind.STRING_MAP, Kind.ANY_MAP)):
        return name
    raise city_error(
        "unknown-field", f"`{name}` is not an agent setting", did_you_mean(name, AGENT.keys)
    )


def wants_text(key: str) -> bool:
    """Return whether the field is a table of strings, in which `env.CI=1` means "1"."""
    head, _, rest = key.partition(".")
    return bool(rest) and key not in AGENT.keys and AGENT.fields[head].kind is Kind.STRING_MAP


def parse_value(text: str, as_text: bool) -> object:
    """Parse a TOML value; anything else is a string."""
    from gascity.toml.read import TomlError, parse

    try:
        value = parse(f"value = {text}".encode())["value"]
    except TomlError:
        return text
    return text if as_text and not isinstance(value, str) else value


def _edited(
    city: City, target: Agent, rig: str | None, changes: Mapping[str, object | None]
) -> tuple[str, str]:
    """Return the file to edit and its new text."""
    if rig is None and target.layer not in ("pack", "built-in"):
        profile = _profile_of(city, target)
        if profile and not _sets_any(target, changes):
            return profile, _edited_profile(city, target, profile, changes)
        file = f"{target.home.directory}/agent.toml"
        return file, set_fields(read_text(city.root, file), _spelled(target, file, changes))
    text = read_text(city.root, "city.toml")
    wanted = _spelled(target, "city.toml", changes)
    try:
        return "city.toml", set_patch(text, target.name.without_rig, wanted, rig=rig)
    except LookupError:
        raise CityError(unknown_rig(rig or "", [r.name for r in city.rigs])) from None


def _edited_profile(
    city: City, target: Agent, file: str, changes: Mapping[str, object | None]
) -> str:
    from gascity.jsonc.tree import JsoncError
    from gascity.source.profiles import edit_profile

    try:
        return edit_profile(_plain_text(city, file), changes)
    except JsoncError:  # reported with its place when the profile was read
        raise CityError(*(p for p in target.problems if p.is_error)) from None


def _plain_text(city: City, file: str) -> str:
    return (read_plain(os.path.join(city.root, file)) or b"").decode()


def _profile_of(city: City, target: Agent) -> str | None:
    """Return the profile that defines an agent, if it has one."""
    files = (f"{target.home.directory}/{name}" for name in PROFILES)
    return next((file for file in files if os.path.isfile(f"{city.root}/{file}")), None)


def _sets_any(target: Agent, changes: Mapping[str, object | None]) -> bool:
    """Return whether agent.toml, beside a profile, sets one of these settings."""
    file = f"{target.home.directory}/agent.toml"
    keys = {key for layer in target.layers if layer.file == file for key in layer.values}
    return not keys.isdisjoint(changes)


def _spelled(
    target: Agent, file: str, changes: Mapping[str, object | None]
) -> Mapping[str, object | None]:
    """Change `model` where the file has it: some files set it in option_defaults."""
    setting = target.setting("model")
    here = setting.layer is not None and setting.layer.file == file
    if "model" not in changes or not here or setting.place is None:
        return changes
    if setting.place.path[-2:] != ("option_defaults", "model"):
        return changes
    return {"option_defaults.model" if k == "model" else k: v for k, v in changes.items()}


def _find_definition(context: CommandContext, city: City, reference: str) -> Agent:
    """Return the definition of an agent, without its rigs."""
    wanted = parse_name(reference).without_rig
    definitions = {agent.name.without_rig: agent for agent in city.agents}
    things = [NameCandidate(a.name.in_rig(None), a.rank, a) for a in definitions.values()]
    match = resolve(wanted, things)
    if match.found is not None:
        return match.found
    if not match.candidates and wanted in external_paths(context.environ).provider_files:
        return context.agent(wanted)[1]
    if match.candidates:
        raise CityError(several(reference, match.candidates))
    raise city_error(
        "unknown-agent",
        f"there is no agent `{reference}`",
        did_you_mean(reference, definitions) or "run `city agent list` to see the agents",
    )


@json_command(
    "rename",
    examples=("city agent rename mayor chief", "city agent rename mayor chief --json"),
    page="how-to/edit",
)
@agent_argument
@click.argument("new")
def rename_agent(context: CommandContext, agent: str, new: str) -> int:
    """Rename an agent and update references to it.

    Its unfinished work and unread mail go to the new name.
    """
    with editing(context) as city:
        target = _find_definition(context, city, agent)
        _check_own(target, "renamed")
        directory = _check_new_name(city.root, new, target.name.bare)
        changed = _renamed_files(city, target.name.bare, new)
        texts = {file: text for file, (text, _) in changed.items()}
        texts |= _renamed_profile(city, target, new)
        _move(context, city, target.home.directory, directory, texts)
        moved = _move_work(context, city, target.name.bare, new)
        if os.path.exists(f"{city.root}/.gc/ledger/starter.json"):
            from gascity.memory.starter import rename_records

            rename_records(city.root, target.home.directory, f"agents/{new}")
    source, destination = target.home.directory, f"agents/{new}"
    references = {
        _moved(file, source, destination): [".".join(map(str, path)) for path in paths]
        for file, (_, paths) in changed.items()
    }
    return context.output(
        {
            "from": source,
            "to": destination,
            "references": [{"file": file, "keys": keys} for file, keys in references.items()],
            "work": moved,
        },
        lambda: [
            f"Renamed {source} to {destination}",
            *(f"  {file}: {', '.join(keys)}" for file, keys in references.items()),
            *([f"  work: {', '.join(moved)}"] if moved else []),
        ],
    )


def _move_work(context: CommandContext, city: City, old: str, new: str) -> list[str]:
    """Give the unfinished work of a renamed agent, in all rigs, to its new name."""
    store = context.store_if_any()
    if store is None:
        return []
    now, who = time.time(), actor(caller(context))
    rigs = ("", *(f"{rig.name}/" for rig in city.rigs))
    with store.transaction():
        return [
            id for rig in rigs for id in store.rename_agent(f"{rig}{old}", f"{rig}{new}", now, who)
        ]


@json_command(
    "remove",
    examples=("city agent remove reviewer", "city agent remove reviewer --yes"),
    page="how-to/edit",
)
@agent_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove_agent(context: CommandContext, agent: str, yes: bool) -> int:
    """Remove an agent of this city.

    Refuses while other files name it or it has unfinished work. A copy of its
    directory stays in .gc/backup.
    """
    from gascity.workdir.write.transaction import PathEdit, backup_name, run_transaction

    root = context.root
    city = open_city(root, context.environ)
    target = _find_definition(context, city, agent)
    _check_own(target, "removed")
    _check_unused(context, city, target.name.bare)
    directory = target.home.directory
    files = sorted(os.path.relpath(path, root) for path in _files_below(f"{root}/{directory}"))
    if not context.as_json:
        print_stderr(f"{directory}:", *(f"  {file}" for file in files))
    require_confirmation(context, f"Remove {directory}?", yes, f"{directory} was not removed")

    def check() -> None:
        if errors := new_errors(city, open_city(root, context.environ)):
            raise CityError(*errors)

    edits = [PathEdit(directory)]
    backup = run_transaction(root, backup_name(root, "remove"), edits, lambda: True, check)
    copy = display_path(root, f"{backup}/old/{directory}")
    return context.output(
        {"agent": target.name.bare, "removed": files, "backup": copy},
        lambda: [f"Removed {directory} ({plural(len(files), 'file')}); a copy is in {copy}"],
    )


def _files_below(directory: str) -> Iterator[str]:
    for folder, _, names in os.walk(directory):
        yield from (os.path.join(folder, name) for name in names)


def _check_own(target: Agent, done: str) -> None:
    if target.layer != "city":
        raise city_error(
            "not-your-agent",
            f"`{target.name}` is not defined by this city",
            f"only agents below agents/ can be {done}",
        )


def _check_unused(context: CommandContext, city: City, name: str) -> None:
    """Raise CityError if files name the agent, or it has unfinished work."""
    references = [
        f"{file}: {'.'.join(map(str, path))}"
        for file, (_, paths) in _renamed_files(city, name, f"{name}-removed").items()
        for path in paths
    ]
    if references:
        message = f"other settings name `{name}`: {', '.join(references)}"
        raise city_error("still-used", message, "remove them first")
    store = context.store_if_any()
    names = [name, *(f"{rig.name}/{name}" for rig in city.rigs)]
    work = store.list_work(agents=names, status=(OPEN, CLAIMED)) if store is not None else []
    if work:
        ids = ", ".join(item.id for item in work)
        hint = f"run `city work move {work[0].id} --to AGENT` or `city work cancel {work[0].id}`"
        raise city_error("still-used", f"`{name}` has unfinished work: {ids}", hint)


def _renamed_profile(city: City, target: Agent, new: str) -> dict[str, str]:
    """Return the agent's profile with its new id, if it has one."""
    file = _profile_of(city, target)
    if file is None:
        return {}
    text = _plain_text(city, file)
    old = re.escape(target.name.bare)
    changed = re.sub(
        rf"(\A---\n(?:.*\n)*?id:[ \t]*[\"']?){old}(?=[\"']?[ \t]*\n)", rf"\g<1>{new}", text
    )
    return {file: changed} if changed != text else {}


def _move(
    context: CommandContext, city: City, directory: str, target: str, texts: Mapping[str, str]
) -> None:
    """Rename the directory and update references; roll back if that breaks the city."""
    from gascity.workdir.write.transaction import replace_city_files

    def check() -> None:
        errors = new_errors(city, open_city(city.root, context.environ))
        # In a city that was broken before, an old error may have moved with the directory.
        if errors and not any(problem.is_error for problem in city.all_problems):
            raise CityError(*errors)

    source = os.path.join(city.root, directory)
    contents = {os.path.join(city.root, file): text.encode() for file, text in texts.items()}
    replace_city_files(city.root, "rename", contents, move=(source, target), check=check)


def _moved(path: str, source: str, target: str) -> str:
    return target + path[len(source) :] if path.startswith(source + "/") else path


def _renamed_files(
    city: City, old: str, new: str
) -> dict[str, tuple[str, list[tuple[str | int, ...]]]]:
    """Return the city's files that name the agent, with their new texts."""
    own = [pack for pack in packs_of(city) if pack.own]
    files = own_files(city.root)
    files += [f"{home.directory}/agent.toml" for pack in own for home in pack.agents]
    renamed = {}
    for file in files:
        text = read_text(city.root, file)
        if old in text:
            changed, paths = rename_references(text, old, new)
            if paths:
                renamed[file] = (changed, paths)
    return renamed
