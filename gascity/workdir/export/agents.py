"""The files of an export of agents: which agents, and each in the format that was asked for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gascity.agent_files import agent_file
from gascity.memory.reflection import reflection_text
from gascity.model.city import Agent, City
from gascity.model.problems import CityError, Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.session_context import SessionContext
from gascity.model.values import as_table
from gascity.pipeline import find_agent
from gascity.prompts import Prompts, is_template
from gascity.render.agent_files import FILE_SETTINGS, agent_file_name, has_agent_files
from gascity.render.agent_formats.assistant import write_assistant
from gascity.render.agent_formats.binnacle import write_binnacle
from gascity.render.agent_formats.profile import write_profiles
from gascity.render.agent_formats.types import (
    ExportedAgent,
    ExportedFile,
    Writer,
    exported_agent,
    lost_settings,
)
from gascity.render.agent_tools import FileTarget, Lost
from gascity.render.prompt_text import RenderedPrompt
from gascity.source.agents import is_profile
from gascity.source.catalogues import read_text
from gascity.source.profiles import profile_tags

# Formats that are no provider's: exported to a directory only.
WRITERS: Mapping[str, Writer] = {
    "profile": write_profiles,
    "binnacle": write_binnacle,
    "assistant": write_assistant,
}
# Settings that agent files carry, or report as lost themselves; `provider` is the one of the file.
_IN_AGENT_FILES = frozenset(
    (
        *FILE_SETTINGS,
        "tools.allow",
        "tools.deny",
        "tools.ask",
        "options",
        "option_defaults",
        "provider",
    )
)
_EDITOR_KEYS = ("argument-hint", "handoffs")
# A value that no prompt contains, to find out which prompts depend on the session.
_MARK = "\N{OBJECT REPLACEMENT CHARACTER}session"


class AgentFiles(NamedTuple):
    """The files of the exported agents, the agents that cannot be exported, and problems."""

    files: tuple[ExportedFile, ...]
    exported: tuple[str, ...]
    broken: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def format_names(city: City) -> list[str]:
    """Return the formats of an export: providers with agent files, and the other three."""
    providers = (name for name, each in city.providers.items() if has_agent_files(each))
    return sorted((*providers, *WRITERS))


def selected_agents(
    city: City,
    references: Sequence[str],
    *,
    rig: str | None = None,
    rig_first: str | None = None,
    everything: bool = False,
) -> list[Agent]:
    """Return the agents that references name; without any, those that are exported by default.

    With `rig`, agents of other rigs are left out. Raises CityError for unknown references, all at
    once.
    """
    if references:
        return _named(city, references, rig_first)
    return [
        agent
        for agent in city.agents
        if agent.layer != "built-in"
        and not _runs_scripts(city, agent)
        and (rig is None or agent.name.rig in (None, rig))
        and (everything or _is_exported(agent))
    ]


def _is_exported(agent: Agent) -> bool:
    return not agent.settings.hidden and agent.settings.execution == "host"


def _runs_scripts(city: City, agent: Agent) -> bool:
    provider = city.provider_of(agent)
    return provider is not None and provider.facts.script


def _named(city: City, references: Sequence[str], rig_first: str | None) -> list[Agent]:
    from gascity.model.names import did_you_mean

    agents: dict[str, Agent] = {}
    problems: list[Problem] = []
    listed = {agent.name: agent for agent in city.agents}
    known = [str(name) for name in listed]
    for reference in references:
        try:
            agent = find_agent(city, reference, rig_first)
        except CityError as error:
            problems += error.problems
            continue
        if agent is None:
            hint = did_you_mean(reference, known) or "to list the agents: `city agent list`"
            message = f"there is no agent `{reference}`"
            problems.append(Problem("unknown-agent", message, None, hint))
            continue
        # In a rig, the name of a city's agent means the agent in that rig; a file has no rig.
        agent = listed.get(agent.name) or listed.get(agent.name.in_rig(None)) or agent
        if _runs_scripts(city, agent):
            message = f"`{agent.name}` runs scripts; no model reads a prompt of it"
            problems.append(Problem("nothing-to-export", message))
        agents[str(agent.name)] = agent
    if problems:
        raise CityError(*problems)
    return list(agents.values())


def agent_files(
    prompts: Prompts, agents: Iterable[Agent], format_name: str, prefix: str = ""
) -> AgentFiles:
    """Return the files of agents in one format. A broken agent is left out and reported."""
    problems: list[Problem] = []
    broken: set[str] = set()
    usable: list[tuple[Agent, str]] = []
    for agent in agents:
        rendered = prompts.of(agent)
        errors = [each for each in (*agent.problems, *rendered.problems) if each.is_error]
        if errors:
            broken.add(str(agent.name))
            problems += (_broken(agent), *errors)
        else:
            usable.append((agent, rendered.text))
            problems += _session_values(prompts, agent)
    problems += _name_clashes([agent for agent, _ in usable])
    clashing = any(each.code == "name-clash" for each in problems)
    files = () if clashing else tuple(_files(prompts, usable, format_name, prefix))
    names = tuple(str(agent.name) for agent, _ in usable)
    if format_name not in WRITERS:
        problems += (each for agent, _ in usable for each in _editor_fields(agent, format_name))
    return AgentFiles(files, names, frozenset(broken), tuple(dict.fromkeys(problems)))


def _broken(agent: Agent) -> Problem:
    message = f"agent `{agent.name}` is broken, so it was not exported"
    hint = "fix its errors: `city check`"
    return Problem("broken-agent", message, Place(agent.home.directory), hint)


def _files(
    prompts: Prompts, agents: Sequence[tuple[Agent, str]], format_name: str, prefix: str
) -> Iterator[ExportedFile]:
    writer = WRITERS.get(format_name)
    if writer is not None:
        exported = [_exported(prompts, agent, text, prefix) for agent, text in agents]
        yield from writer(exported) if exported else ()
        return
    provider = prompts.city.providers[format_name]
    for agent, text in agents:
        own = prompts.city.provider_of(agent)
        yield provider_file(agent, text, provider, prefix, words_of=own)


def provider_file(
    agent: Agent,
    prompt: str,
    provider: Provider,
    prefix: str = "",
    *,
    words_of: Provider | None = None,
) -> ExportedFile:
    """Return an agent as a file of a provider, with everything that the file does not carry.

    `words_of` is the agent's own provider, whose words for tools are translated.
    """
    file = agent_file(agent, prompt, FileTarget(provider, words_of=words_of, prefix=prefix))
    exported = exported_agent(agent, file.name, prompt)
    product = provider.facts.display_name or provider.name
    reason = f"agent files of {product} have no key for it"
    lost = [*file.lost, *lost_settings(exported, _IN_AGENT_FILES, reason)]
    lost += [
        Lost(f"option_defaults.{key}", str(value), reason)
        for key, value in as_table(exported.settings.get("option_defaults")).items()
        if key != "permission_mode"
    ]
    name = str(agent.name)
    return ExportedFile(file.path, file.text, (name,), {name: tuple(lost)})


def _exported(prompts: Prompts, agent: Agent, text: str, prefix: str) -> ExportedAgent:
    exported = exported_agent(agent, agent_file_name(str(agent.name), prefix), text)
    if file := agent.settings.reflection:
        exported = exported._replace(reflection=reflection_text(prompts.city, file))
    file = agent.settings.prompt or ""
    if not is_profile(file):
        return exported
    return exported._replace(tags=profile_tags(read_text(prompts.disk, file) or ""))


def _name_clashes(agents: Sequence[Agent]) -> Iterator[Problem]:
    """Yield pairs of agents that would have one file; some file systems ignore case."""
    seen: dict[str, Agent] = {}
    for agent in agents:
        name = agent_file_name(str(agent.name))
        other = seen.setdefault(name.casefold(), agent)
        if other is not agent:
            message = f"agents `{other.name}` and `{agent.name}` would both be exported as `{name}`"
            hint = "export them to two directories, or rename one: `city agent rename`"
            yield Problem("name-clash", message, Place(agent.home.directory), hint)


def _session_values(prompts: Prompts, agent: Agent) -> Iterator[Problem]:
    """Warn about parts of a prompt that depend on the session, which an exported one has not."""
    if not is_template(agent.settings.prompt):
        return
    usual, _ = prompts.session_context(agent)
    for name, marked in _marked(usual):
        rendered = prompts.for_session(marked).of(agent)
        at = rendered.text.find(_MARK)
        if at >= 0:
            message = f"the exported prompt of `{agent.name}` contains {name} of its first session"
            hint = "it is right on this machine only; remove it from the prompt if others use it"
            place = _place_of(rendered, at)
            yield warning("session-value-exported", message, place, hint)


def _marked(session: SessionContext) -> Iterator[tuple[str, SessionContext]]:
    yield "`.WorkDir`", session._replace(work_dir=_MARK)
    yield "`.Branch`", session._replace(branch=_MARK)


def _place_of(prompt: RenderedPrompt, at: int) -> Place | None:
    for piece in prompt.pieces:
        if piece.start <= at < piece.end:
            line = piece.line + prompt.text.count("\n", piece.start, at)
            return Place(piece.file, line=line, col=1)
    return None


def _editor_fields(agent: Agent, format_name: str) -> Iterator[Problem]:
    own = as_table(agent.settings.options.get(format_name))
    keys = [key for key in _EDITOR_KEYS if key in own]
    if keys:
        message = f"{', '.join(keys)}: only editors read it; Copilot CLI 0.0.398 and newer complain"
        place = agent.setting("options").place
        hint = f"remove it from `[options.{format_name}]` if you use the CLI"
        yield warning("copilot-editor-fields", message, place, hint)


def provider_of(city: City, format_name: str) -> Provider | None:
    """Return the provider that a format belongs to; None for the other formats."""
    return city.providers.get(format_name) if format_name not in WRITERS else None
