"""`city agent show` and `emit`: an agent's settings, its rendered prompt and the prompt's size."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from gascity.cli.agent.explain import setting_json, value_text, where
from gascity.cli.agent.list import agent_row, maximum, source_text
from gascity.cli.command import command, json_command
from gascity.cli.context import (
    CommandContext,
    agent_argument,
    may_reveal,
    pass_context,
    reveal_option,
)
from gascity.cli.output import (
    DIM,
    escape,
    plural,
    printable,
    styled,
    text_lines,
    wrap,
    write_content,
)
from gascity.cli.problems import Locator, problems_json
from gascity.cli.session_prompt import command_prompts
from gascity.cli.tables import Column, fact_lines, json_row
from gascity.model.city import Agent, City
from gascity.model.layers import PROVIDER_LAYER, Setting
from gascity.model.problems import CityError, Problem, warning
from gascity.model.secrets import agent_secrets, mask_secrets
from gascity.model.values import JsonObject
from gascity.pipeline import list_skills
from gascity.render.prompt_text import PromptPiece, RenderedPrompt
from gascity.source.agents import is_profile
from gascity.source.catalogues import read_text
from gascity.source.disk import Disk

if TYPE_CHECKING:
    from gascity.prompts import Prompts
    from gascity.workdir.agent_files import Subagent
    from gascity.workdir.project_files import Project

_EXCERPT = 500
_OVER_BUDGET = "over-budget"
_CHARS_PER_TOKEN = 4


def render(context: CommandContext, city: City, agent: Agent) -> RenderedPrompt:
    """Render the prompt of the agent's first session."""
    return command_prompts(context, city, agent).of(agent)


def _subagents(prompts: "Prompts", agent: Agent) -> "list[Subagent]":
    if not agent.settings.native_subagents or agent.broken:
        return []
    from gascity.workdir.agent_files import subagents

    return subagents(prompts, agent)


def _subagent_json(subagent: "Subagent") -> JsonObject:
    left_out = dict.fromkeys((lost.field, lost.reason) for lost in subagent.left_out)
    return {
        "name": str(subagent.agent.name),
        "file": subagent.path or None,
        "left_out": [{"key": key, "reason": reason} for key, reason in left_out],
    }


def _subagent_lines(subagents: "Sequence[Subagent]") -> Iterator[str]:
    if subagents:
        yield ""
        yield "Subagents:"
    for subagent in subagents:
        yield f"  {subagent.agent.name}" + (f"  {subagent.path}" if subagent.path else "")
        for field, value, reason in subagent.left_out:
            yield f"    left out: {' '.join(filter(None, (field, value)))} ({reason})"


@json_command(
    "show",
    examples=(
        "city agent show mayor",
        "city agent show mayor --rendered",
        "city agent show mayor --budget",
    ),
    page="how-to/agents",
)
@agent_argument
@click.option(
    "--rendered", is_flag=True, help="Show the whole prompt with the source of each part."
)
@click.option(
    "--budget", is_flag=True, help="Show the size of the prompt against the provider's limits."
)
@click.option(
    "--peers", is_flag=True, help="Show which agents it may message, and which may message it."
)
@reveal_option
def show_agent(
    context: CommandContext, agent: str, rendered: bool, budget: bool, peers: bool, reveal: bool
) -> int:
    """Show an agent's settings, tools and prompt."""
    city, selected = context.agent(agent)
    revealed = may_reveal(reveal)
    if peers:
        from gascity.cli.agent.peers import show_peers

        return show_peers(context, selected)
    prompts = command_prompts(context, city, selected)
    prompt = prompts.of(selected)
    native = _subagents(prompts, selected)
    limits = list(_limits(city, selected, prompt)) if budget else []
    problems = [*selected.problems, *prompt.problems, *_over_budget(selected, limits)]
    locator = context.locator()
    settings = selected.all_settings()
    # A template may have put a secret into the prompt; only `emit` prints it.
    secrets = tuple(agent_secrets(selected.settings.env).values()) if not revealed else ()
    is_summary = not (rendered or budget)
    project = _project(context, city, selected) if is_summary or context.as_json else None
    problems += project.problems if project is not None else ()
    hud = _hud(city, selected, prompt)

    def answer() -> Mapping[str, object]:
        return {
            **agent_row(selected),
            "display_name": selected.settings.display_name,
            "model": selected.settings.model,
            "definition": "profile" if _profile(selected) else "directory",
            "tags": list(_tags(selected, prompts.disk)),
            "reflection": _reflection(city, selected, locator),
            "tools": _tools(selected),
            "subagents": [_subagent_json(each) for each in native],
            "hud": hud._asdict() if hud is not None else None,
            "prompt": _prompt_json(prompt),
            "fields": {name: setting_json(s, locator, revealed) for name, s in settings.items()},
            "project": _project_json(project),
            **({"spans": _spans_json(prompt, secrets)} if rendered else {}),
            **({"budget": _budget_json(prompt, limits)} if budget else {}),
            "problems": problems_json(problems, locator),
        }

    def lines() -> Iterator[str]:
        if rendered:
            yield from _prompt_lines(context, prompt)
        if budget:
            yield from _budget_lines(context, selected, prompt, limits)
        if is_summary:
            yield from _fact_lines(context, city, selected, prompts.disk, hud)
            yield from _tool_lines(selected)
            yield from _subagent_lines(native)
            yield from _settings_lines(context, settings, locator, revealed)
            yield from _project_lines(context, project)
            yield from _excerpt(selected, prompt)

    # Warnings about the definition are those of `city check`.
    shown = [problem for problem in problems if problem.is_error or problem.code == _OVER_BUDGET]
    return context.output(answer, lambda: (mask_secrets(line, secrets) for line in lines()), shown)


def _project(context: CommandContext, city: City, agent: Agent) -> "Project | None":
    """Return what the project of the agent's rig provides; None for an agent of no rig."""
    if agent.name.rig is None:
        return None
    from gascity.cli.project import load_project

    return load_project(context, city, agent)


def _project_json(project: "Project | None") -> list[JsonObject]:
    if project is None:
        return []
    from gascity.cli.project import project_json

    return project_json(project.items)


def _project_lines(context: CommandContext, project: "Project | None") -> Iterator[str]:
    if project is not None and project.items:
        from gascity.cli.project import project_lines

        yield ""
        yield from project_lines(context, project, project.items)


def _spans_json(prompt: RenderedPrompt, secrets: Sequence[str]) -> list[JsonObject]:
    """Return the parts of a prompt with their sources and texts."""
    return [
        {**piece._asdict(), "text": mask_secrets(prompt.text[piece.start : piece.end], secrets)}
        for piece in prompt.pieces
    ]


def _tools(agent: Agent) -> JsonObject:
    """Return the tool lists for programs; an unrestricted list is `*`, never null."""
    tools = agent.settings.tools
    allow = ["*"] if tools.allow is None else list(tools.allow)
    return {"allow": allow, "deny": list(tools.deny), "ask": list(tools.ask)}


class _HudRefresh(NamedTuple):
    """The HUD sections in a prompt, and when they are refreshed: `turn` or `start`."""

    sections: list[str]
    refresh: str
    note: str  # why sections that change are only refreshed at the start


def _hud(city: City, agent: Agent, prompt: RenderedPrompt) -> _HudRefresh | None:
    """Return how the HUD of a prompt is refreshed; None without one."""
    if not prompt.hud:
        return None
    from gascity.hud.hooks import has_hook

    names = [text.name for text in prompt.hud]
    if not any(text.volatile for text in prompt.hud):
        return _HudRefresh(names, "start", "")
    if has_hook(city, agent):
        return _HudRefresh(names, "turn", "")
    return _HudRefresh(names, "start", f"`{agent.provider}` has no hook for it")


def _hud_text(hud: _HudRefresh | None) -> str:
    if hud is None:
        return ""
    when = "refreshed every turn" if hud.refresh == "turn" else "at start only"
    return f"{when}{'; ' if hud.note else ''}{hud.note} ({', '.join(hud.sections)})"


def _fact_lines(
    context: CommandContext, city: City, agent: Agent, disk: Disk, hud: _HudRefresh | None
) -> Iterator[str]:
    settings, most = agent.settings, maximum(agent)
    finishes = "closes its work" if settings.session_state == "stateful" else "answers"
    facts = {
        "Agent": str(agent.name),
        "Name": settings.display_name,
        "Description": settings.description,
        "Provider": " ".join(filter(None, (agent.provider, settings.model))),
        "Execution": settings.execution,
        "Session state": f"{settings.session_state} ({finishes})",
        "Sessions": f"{settings.min_active_sessions} to {'no limit' if most is None else most}",
        "Source": source_text(agent),
        "Definition": _profile(agent),
        "Tags": ", ".join(_tags(agent, disk)),
        "Reflection": _reflection_fact(city, agent),
        "HUD": _hud_text(hud),
    }
    texts = [(name, fact or "") for name, fact in facts.items()]
    return fact_lines(texts, 15, context.width, "Agent", context.colour)


def _reflection(city: City, agent: Agent, locator: Locator) -> JsonObject | None:
    """Return where the message after each work item is written, and its length."""
    file = agent.settings.reflection
    if not file:
        return None
    from gascity.memory.reflection import reflection_text

    place = agent.setting("reflection").place
    inside = place is not None and place.file == file  # a section of a profile
    line = locator.line_col(place)[0] if inside else 1
    return {"file": file, "line": line, "chars": len(reflection_text(city, file))}


def _reflection_fact(city: City, agent: Agent) -> str:
    file = agent.settings.reflection
    if not file:
        return ""
    from gascity.memory.reflection import reflection_text

    lines = len(reflection_text(city, file).splitlines())
    return f"{plural(lines, 'line')}, after each item"


def _profile(agent: Agent) -> str:
    """Return the name of the profile that defines an agent, "" if it has none."""
    names = (layer.file.rpartition("/")[2] for layer in agent.layers if is_profile(layer.file))
    return next(names, "")


def _tags(agent: Agent, disk: Disk) -> tuple[str, ...]:
    """Return the tags of the profile that defines an agent."""
    file = next((layer.file for layer in agent.layers if is_profile(layer.file)), "")
    if not file:
        return ()
    from gascity.source.profiles import profile_tags

    return profile_tags(read_text(disk, file) or "")


def _tool_lines(agent: Agent) -> Iterator[str]:
    tools = agent.settings.tools
    if not tools.allow:
        yield ""
        yield "Tools allowed: " + ("all" if tools.allow is None else "none")
    for head, names in (
        ("Tools allowed", tools.allow),
        ("Tools that need approval", tools.ask),
        ("Tools denied", tools.deny),
    ):
        if names:
            yield ""
            yield f"{head}:"
            yield from (f"  {tool}" for tool in names)


def _settings_lines(
    context: CommandContext, settings: Mapping[str, Setting], locator: Locator, reveal: bool
) -> Iterator[str]:
    """Yield the settings in the city's files; `explain` shows those of the provider too."""
    shown_above = ("description", "display_name", "prompt")
    written = {
        name: setting
        for name, setting in settings.items()
        if setting.layer is not None and setting.kind != PROVIDER_LAYER and name not in shown_above
    }
    if written:
        yield ""
        yield "Settings:"
    for name, setting in written.items():
        first, *rest = wrap(f"{name} = {value_text(setting, reveal)}", context.width - 6)
        yield f"  {first}"
        yield from (f"      {line}" for line in rest)
        yield "      " + styled(where(setting, locator), DIM, context.colour)


def _prompt_json(prompt: RenderedPrompt) -> JsonObject:
    """Return files, hash and length of the prompt; null if it cannot be rendered."""
    from hashlib import sha256

    known = not any(problem.is_error for problem in prompt.problems)
    return {
        "files": list(dict.fromkeys(piece.file for piece in prompt.pieces)),
        "sha256": sha256(prompt.text.encode()).hexdigest() if known else None,
        "chars": len(prompt.text) if known else None,
    }


def _excerpt(agent: Agent, prompt: RenderedPrompt) -> Iterator[str]:
    """Yield the start of a prompt."""
    file = agent.settings.prompt or "from the description"
    size = len(prompt.text)
    more = f"first {_EXCERPT} of {size:,} characters, " if size > _EXCERPT else ""
    yield ""
    yield f"Prompt ({more}{file}):"
    for line in printable(prompt.text[:_EXCERPT]).rstrip().splitlines():
        yield f"  {line}".rstrip()


def _prompt_lines(context: CommandContext, prompt: RenderedPrompt) -> Iterator[str]:
    """Yield the whole prompt under headings with its sources."""
    for piece in _merged(prompt):
        heading = escape(f"── {piece.file}:{piece.line} ({piece.kind}) ")
        yield styled(heading + "─" * max(0, context.width - len(heading)), DIM, context.colour)
        yield from text_lines(prompt.text[piece.start : piece.end])


def _merged(prompt: RenderedPrompt) -> list[PromptPiece]:
    """Join neighbouring parts of one file; the line is that of the first."""
    joined: list[PromptPiece] = []
    for piece in prompt.pieces:
        last = joined[-1] if joined else None
        if last is not None and (last.file, last.kind) == (piece.file, piece.kind):
            joined[-1] = last._replace(end=piece.end)
        else:
            joined.append(piece)
    return joined


class _PromptSource(NamedTuple):
    """The characters of a prompt that come from one file."""

    file: str
    kind: str
    chars: int

    @property
    def tokens(self) -> int:
        return -(-self.chars // _CHARS_PER_TOKEN)


class _PromptLimit(NamedTuple):
    """A limit of the provider; it cuts off the rest."""

    name: str
    limit: int
    used: int


_BUDGET_COLUMNS: tuple[Column[_PromptSource], ...] = (
    Column("file", lambda source: source.file),
    Column("kind", lambda source: source.kind),
    Column("chars", lambda source: source.chars, "CHARS", lambda source: f"{source.chars:,}"),
    Column("tokens", lambda source: source.tokens, "TOKENS", lambda source: f"{source.tokens:,}"),
    Column("", lambda source: source.kind, "KIND", lambda source: source.kind),
    Column("", lambda source: source.file, "SOURCE"),
)


def _sources(prompt: RenderedPrompt) -> list[_PromptSource]:
    chars: dict[tuple[str, str], int] = {}
    for piece in prompt.pieces:
        key = (piece.file, piece.kind)
        chars[key] = chars.get(key, 0) + piece.end - piece.start
    return [_PromptSource(file, kind, count) for (file, kind), count in chars.items()]


def _limits(city: City, agent: Agent, prompt: RenderedPrompt) -> Iterator[_PromptLimit]:
    provider = city.provider_of(agent)
    if provider is None:
        return
    most = provider.facts.limits.instruction_bytes
    if most is not None:
        yield _PromptLimit("instruction bytes", most, len(prompt.text.encode()))
    listing = provider.facts.limits.skill_listing_chars
    if listing is not None:
        skills = [entry.skill for entry in list_skills(city, Disk(city.root), agent)]
        used = sum(len(skill.name) + len(skill.description) + 4 for skill in skills)
        yield _PromptLimit("skill listing", listing, used)


def _over_budget(agent: Agent, limits: Sequence[_PromptLimit]) -> list[Problem]:
    return [
        warning(
            _OVER_BUDGET,
            f"{name}: {used:,} exceed the limit of {limit:,} of `{agent.provider}`",
            agent.setting("prompt").place,
            "shorten it; the provider cuts off the rest",
        )
        for name, limit, used in limits
        if used > limit
    ]


def _budget_json(prompt: RenderedPrompt, limits: Sequence[_PromptLimit]) -> JsonObject:
    """Return characters and estimated tokens per source, and the provider's limits."""
    return {
        "sources": [json_row(_BUDGET_COLUMNS, source) for source in _sources(prompt)],
        "chars": len(prompt.text),
        "bytes": len(prompt.text.encode()),
        "tokens": _PromptSource("", "", len(prompt.text)).tokens,
        "limits": [{**limit._asdict(), "over": limit.used > limit.limit} for limit in limits],
    }


def _budget_lines(
    context: CommandContext, agent: Agent, prompt: RenderedPrompt, limits: Sequence[_PromptLimit]
) -> Iterator[str]:
    total = _PromptSource("total", "", len(prompt.text))
    yield from context.table(_BUDGET_COLUMNS, [*_sources(prompt), total])
    yield f"Tokens are estimated at {_CHARS_PER_TOKEN} characters each."
    for name, limit, used in limits:
        yield f"{agent.provider}, {name}: {used:,} of {limit:,}"


@command(
    "emit",
    examples=("city agent emit mayor", "city agent emit mayor > prompt.md"),
    page="explanation/prompts",
)
@agent_argument
@pass_context
def emit_agent(context: CommandContext, agent: str) -> int:
    """Print an agent's rendered prompt.

    Prints the exact bytes that the agent gets, and nothing else.
    """
    city, selected = context.agent(agent)
    prompt = render(context, city, selected)
    errors = [problem for problem in (*selected.problems, *prompt.problems) if problem.is_error]
    if errors:
        raise CityError(*errors)
    write_content(prompt.text)
    return 0
