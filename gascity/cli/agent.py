"""`city agent`: see agents, and why they are as they are."""

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping

import click

from gascity.cli.context import Context, agent_argument, json_option, pass_context
from gascity.cli.output import BOLD, DIM, paint, wrap
from gascity.cli.problems import Locator, problems_json
from gascity.cli.rows import agent_lines, agent_row, source_text
from gascity.model.city import Agent, City
from gascity.model.fields import AGENT
from gascity.model.layers import PROVIDER_LAYER, Setting
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Place, Problem
from gascity.model.secrets import masked
from gascity.source.disk import Disk

_SHOWN = 500

_reveal = click.option("--reveal", is_flag=True, help="Show secrets (on a terminal only).")


@click.group()
def agent() -> None:
    """See, explain and change agents."""


@agent.command("list")
@json_option
@pass_context
def list_agents(context: Context) -> int:
    """List every agent of the city."""
    from gascity.cli.cached import answer_and_keep

    return answer_and_keep(context, "agent list", _agent_list)


def _agent_list(context: Context, disk: Disk) -> tuple[Mapping[str, object], Iterator[str], str]:
    """The answer as JSON, as lines, and what goes to stderr beside it."""
    city = context.city(disk=disk)
    rows = [agent_row(one) for one in city.agents]
    lines = agent_lines(rows, context.width, context.colour)
    return {"agents": rows}, iter(lines), _note(city)


def _note(city: City) -> str:
    broken = [str(one.name) for one in city.agents if one.broken]
    errors = sum(problem.is_error for problem in city.everything_wrong)
    if broken:
        return f"city: broken: {', '.join(broken)}; `city check` says why"
    if errors:
        return f"city: {errors} error{'s' if errors > 1 else ''}; `city check` shows them"
    return ""


@agent.command("show")
@agent_argument
@json_option
@_reveal
@pass_context
def show_agent(context: Context, agent: str, reveal: bool) -> int:
    """Show what one agent is: its tools, its prompt, and where each setting stands."""
    city, one = context.agent(agent)
    locator = context.locator()
    settings = one.settings()
    prompt = _prompt_bytes(city, one)
    open_ = _may_reveal(reveal)
    answer = {
        **agent_row(one),
        "display_name": one.value("display_name"),
        "model": one.value("model"),
        "tools": _tools(one),
        "prompt": _prompt_json(one, prompt),
        "fields": {name: _setting_json(s, locator, open_) for name, s in settings.items()},
        "problems": problems_json(one.problems, locator),
    }
    context.say(answer, lambda: _show_lines(context, one, settings, prompt, locator, open_))
    if one.broken and not context.as_json:
        context.print_problems(one.problems)
    return int(one.broken)


def _may_reveal(reveal: bool) -> bool:
    if reveal and not sys.stdout.isatty():
        raise click.UsageError("--reveal works on a terminal only")
    return reveal


def _tools(one: Agent) -> dict[str, object]:
    names = ("allow", "deny", "ask")
    return {name: _listed(one.value(f"tools.{name}")) for name in names}


def _listed(value: object) -> list[str] | None:
    return list(value) if isinstance(value, (list, tuple)) else None


def _prompt_bytes(city: City, one: Agent) -> bytes | None:
    """What `emit` prints; None where that is not known: a template, or a file that is gone."""
    file = one.text("prompt")
    if not file:
        return described(one).encode()
    if is_template(file):
        return None
    return Disk(city.root).read(os.path.join(city.root, file))


def is_template(file: str) -> bool:
    """Only files with the infix are templates (and the old suffix of published packs)."""
    return ".template." in os.path.basename(file) or file.endswith(".md.tmpl")


def described(one: Agent) -> str:
    """The prompt of an agent that has only a description."""
    name = one.text("display_name") or one.name.bare
    return f"You are {name}. {one.text('description')}".strip() + "\n"


def _prompt_json(one: Agent, prompt: bytes | None) -> dict[str, object]:
    file = one.text("prompt")
    known = prompt is not None
    return {
        "files": [file] if file else [],
        "sha256": hashlib.sha256(prompt).hexdigest() if prompt is not None else None,
        "chars": len(prompt.decode("utf-8", "replace"))
        if known and prompt
        else 0
        if known
        else None,
    }


def _setting_json(setting: Setting, locator: Locator, reveal: bool) -> dict[str, object]:
    line, _ = locator.line_col(setting.place)
    value = setting.value if reveal else masked(setting.value, setting.key)
    return {
        "value": value,
        "file": setting.place.file if setting.place else None,
        "line": line,
        "layer": setting.kind,
    }


def _show_lines(
    context: Context,
    one: Agent,
    settings: Mapping[str, Setting],
    prompt: bytes | None,
    locator: Locator,
    reveal: bool,
) -> Iterator[str]:
    row = agent_row(one)
    stateful = row["session_state"] == "stateful"
    most = "no limit" if row["max"] is None else row["max"]
    facts = {
        "Agent": paint(str(one.name), BOLD, context.colour),
        "Name": one.text("display_name"),
        "Description": one.text("description"),
        "Provider": " ".join(filter(None, (one.provider, one.text("model")))),
        "Execution": row["execution"],
        "Session state": f"{row['session_state']} ({'closes its work' if stateful else 'answers'})",
        "Sessions": f"{row['min']} to {most}",
        "Source": source_text(row),
    }
    for name, fact in facts.items():
        if fact:
            first, *rest = wrap(str(fact), context.width - 15)
            yield f"{name + ':':<14} {first}"
            yield from (" " * 15 + line for line in rest)
    yield from _tool_lines(one)
    yield from _settings_lines(context, settings, locator, reveal)
    yield from _prompt_lines(one, prompt)


def _tool_lines(one: Agent) -> Iterator[str]:
    for name, head in (
        ("allow", "Tools allowed"),
        ("ask", "Tools to ask for"),
        ("deny", "Tools denied"),
    ):
        tools = _listed(one.value(f"tools.{name}"))
        if tools is None:
            yield f"\n{head}: all"
        elif tools or name == "allow":
            yield f"\n{head}:" + ("" if tools else " none")
            yield from (f"  {tool}" for tool in tools)


def _settings_lines(
    context: Context, settings: Mapping[str, Setting], locator: Locator, reveal: bool
) -> Iterator[str]:
    """What the city's files say; a provider's own facts are `explain`'s and `provider show`'s."""
    above = ("description", "display_name", "prompt")
    written = {
        name: setting
        for name, setting in settings.items()
        if setting.layer is not None and setting.kind != PROVIDER_LAYER and name not in above
    }
    if written:
        yield "\nSettings:"
    for name, setting in written.items():
        first, *rest = wrap(f"{name} = {value_text(setting, reveal)}", context.width - 6)
        yield f"  {first}"
        yield from (f"      {line}" for line in rest)
        yield "      " + paint(where(setting, locator), DIM, context.colour)


def value_text(setting: Setting, reveal: bool = False) -> str:
    """A value as TOML would write it."""
    return _toml(setting.value if reveal else masked(setting.value, setting.key))


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


def _prompt_lines(one: Agent, prompt: bytes | None) -> Iterator[str]:
    file = one.text("prompt") or "made of its description"
    if prompt is None:
        yield f"\nPrompt: {file}" + (" (a template)" if is_template(file) else "")
        return
    text = prompt.decode("utf-8", "replace")
    more = f"first {_SHOWN} of {len(text):,} characters, " if len(text) > _SHOWN else ""
    yield f"\nPrompt ({more}{file}):"
    for line in text[:_SHOWN].rstrip().splitlines():
        yield f"  {line}".rstrip()


@agent.command("emit")
@agent_argument
@pass_context
def emit_agent(context: Context, agent: str) -> int:
    """Print an agent's prompt, byte for byte, and nothing else."""
    city, one = context.agent(agent)
    broken = [problem for problem in one.problems if problem.is_error]
    if broken:
        raise CityError(*broken)
    file = one.text("prompt")
    prompt = _prompt_bytes(city, one)
    if prompt is None:
        raise CityError(
            Problem(
                "template-not-rendered",
                f"the prompt of `{one.name}` is a template",
                Place(file, line=1, col=1),
                "templates are not rendered yet; read the file",
            )
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(prompt)
    sys.stdout.buffer.flush()
    return 0


@agent.command("explain")
@agent_argument
@click.argument("field", required=False)
@json_option
@_reveal
@pass_context
def explain_agent(context: Context, agent: str, field: str | None, reveal: bool) -> int:
    """Say where each setting of an agent comes from, and what it covers there."""
    _, one = context.agent(agent)
    open_ = _may_reveal(reveal)
    chains = _chains(one, field)
    locator = context.locator()
    answer = {
        "name": str(one.name),
        "fields": {
            name: [_setting_json(s, locator, open_) for s in chain]
            for name, chain in chains.items()
        },
    }
    context.say(answer, lambda: _explain_lines(context, chains, locator, open_))
    return 0


def _chains(one: Agent, field: str | None) -> dict[str, list[Setting]]:
    """The whole history of one field, or of every field somebody wrote."""
    if field is None:
        return {name: one.setting(name).chain() for name, s in one.settings().items() if s.layer}
    name = AGENT.aliases.get(field, field)
    if name in AGENT.fields:
        return {name: one.setting(name).chain()}
    parts = [known for known in AGENT.fields if known.startswith(field + ".")]
    if parts:
        return {name: one.setting(name).chain() for name in parts}
    raise CityError(
        Problem(
            "unknown-field",
            f"`{field}` is not an agent setting",
            None,
            did_you_mean(field, AGENT.fields),
        )
    )


def _explain_lines(
    context: Context, chains: Mapping[str, list[Setting]], locator: Locator, reveal: bool
) -> Iterator[str]:
    if not chains:
        yield "Nothing is written; every setting is at its default."
    for at, (name, chain) in enumerate(chains.items()):
        if at:
            yield ""
        for setting in chain:
            head = f"{name} =" if setting is chain[0] else "  covers"
            first, *rest = wrap(f"{head.strip()} {value_text(setting, reveal)}", context.width - 6)
            indent = head[: len(head) - len(head.lstrip())]
            yield indent + first.replace(name, paint(name, BOLD, context.colour), 1)
            yield from (f"      {line}" for line in rest)
            yield "    " + paint(where(setting, locator), DIM, context.colour)


def _add_editing() -> None:
    from gascity.cli.agent_edit import new_agent, rename_agent, set_agent

    for command in (new_agent, set_agent, rename_agent):
        agent.add_command(command)


_add_editing()
