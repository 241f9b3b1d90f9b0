"""Agent files in a working directory: a session's own agent, and native subagents.

A native subagent is another agent of the city, written as an agent file of the caller's provider.
It runs inside the caller's program, so its own provider is not used.
"""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from gascity.agent_files import agent_file
from gascity.location import WORKTREE, Site
from gascity.model.city import Agent, City
from gascity.model.problems import Problem, warning
from gascity.model.provider import Provider
from gascity.model.wanted import FILE, GENERATED, WantedPath
from gascity.prompts import Prompts
from gascity.render.agent_files import AgentFile, agent_file_name, has_agent_files
from gascity.render.agent_tools import FileTarget, Lost
from gascity.render.flags import (
    HEADLESS,
    INTERACTIVE,
    UNENFORCEABLE,
    as_required,
    own_delivery,
)
from gascity.render.variables import is_available
from gascity.source.disk import read_plain
from gascity.workdir.overlays import contains_secret
from gascity.workdir.same_agent_file import same_agent
from gascity.workdir.wanted import Requirements

_FILE = "file"
_PREFIX = "city"  # of the name of a session's own agent, if another agent has its usual name


class OwnFile(NamedTuple):
    """The file of a session's own agent, and the prompt in it."""

    path: str
    prompt: str


class Subagent(NamedTuple):
    """An agent that matches `native_subagents`.

    `path` is its file in the directory, with `text`; both are empty if it is left out.
    """

    agent: Agent
    path: str = ""
    text: str = ""
    left_out: tuple[Lost, ...] = ()


def _has_own_file(provider: Provider, agent: Agent) -> bool:
    """Return whether an agent is written for its own sessions, or for the editor it configures."""
    if not provider.launches:
        return provider.facts.agents.deliver == _FILE
    return own_delivery(provider, agent) == _FILE


def collect_agent_files(
    prompts: Prompts, own_prompts: Prompts, site: Site, requirements: Requirements, home: str
) -> None:
    """Add an agent's files to what its directory needs.

    `own_prompts` render with the values of the session that has the directory. `home` is the user's
    home directory.
    """
    provider = prompts.city.provider_of(site.agent)
    if provider is None:
        return
    if _has_own_file(provider, site.agent):
        _collect_own(own_prompts, provider, site, requirements, home)
    for subagent in subagents(prompts, site.agent):
        if subagent.path:
            problems = subagent_problems(prompts.city, site.agent, subagent)
            requirements.report_blocking(str(site.agent.name), problems)
            _add(requirements, provider, site, subagent.agent, subagent.path, subagent.text)


def _collect_own(
    prompts: Prompts, provider: Provider, site: Site, requirements: Requirements, home: str
) -> None:
    agent, name = site.agent, str(site.agent.name)
    prompt = prompts.for_files().of(agent)
    errors = [problem for problem in prompt.problems if problem.is_error]
    if errors:
        requirements.report_blocking(name, errors)
        return
    kind = INTERACTIVE if provider.facts.interactive else HEADLESS
    prefix = _PREFIX if free_agent_name(provider, agent, site.workdir, home) else ""
    delivery = requirements.deliveries.get(name)
    gateways = delivery.gateways if delivery is not None else ()
    target = FileTarget(provider, kind, own=True, gateways=gateways, prefix=prefix)
    file = agent_file(agent, prompt.text, target)
    path = _path(provider, file)
    requirements.agent_files[name] = OwnFile(path, prompt.text)
    _add(requirements, provider, site, agent, path, file.text)


def _path(provider: Provider, file: AgentFile) -> str:
    return f"{(provider.facts.agents.directory or '').rstrip('/')}/{file.path}"


def _add(
    requirements: Requirements,
    provider: Provider,
    site: Site,
    subject: Agent,
    path: str,
    text: str,
) -> None:
    """Add the file of an agent (`subject`) to the directory of an agent."""
    name, caller = str(subject.name), str(site.agent.name)
    other = requirements.file_subjects.setdefault(path, name)
    if other != name:
        problem = _name_clash(path, other, name)
        problem = problem._replace(place=site.agent.setting("native_subagents").place)
        for agent in {caller, *requirements.wanted[path].agents}:
            requirements.report_blocking(agent, [problem])
        return
    data = _projects_own(provider, site, path, text)
    secret = contains_secret(data, subject) or contains_secret(data, site.agent)
    mode = 0o600 if secret else 0o644
    source = subject.home.directory
    requirements.add(WantedPath(path, FILE, source, GENERATED, (caller,), mode, data=data))


def _projects_own(provider: Provider, site: Site, path: str, text: str) -> bytes:
    """Return the project's own file if it defines the same agent, so that it stays as it is."""
    data = text.encode("utf-8", "surrogateescape")
    root = site.rig if site.kind == WORKTREE else site.workdir
    own = read_plain(f"{root}/{path}") if root else None
    if own is None or provider.facts.agents.format != "markdown":
        return data
    constants = provider.facts.agents.set or {}
    return own if same_agent(text, own.decode("utf-8", "replace"), constants) else data


def _name_clash(path: str, first: str, second: str) -> Problem:
    """Return the problem of two agents whose agent files have the same path."""
    return Problem(
        "name-clash",
        f"agents `{first}` and `{second}` both have the agent file {path}",
        None,
        "rename one of them",
    )


# Native subagents


def subagents(prompts: Prompts, agent: Agent) -> list[Subagent]:
    """Return the agents that match `native_subagents`, each with its file, in the city's order."""
    globs = agent.settings.native_subagents
    provider = prompts.city.provider_of(agent)
    if not globs or provider is None or not can_have_subagents(provider):
        return []
    city = prompts.whole_city()
    return [
        _subagent(prompts, provider, other)
        for other in city.agents
        if is_subagent(agent, other, globs) and is_available(city, agent, other)
    ]


def can_have_subagents(provider: Provider) -> bool:
    """Return whether a provider offers its model the agent files of a directory."""
    facts = provider.facts.agents
    return facts.subagents and bool(facts.directory) and has_agent_files(provider)


def is_subagent(caller: Agent, other: Agent, globs: Sequence[str]) -> bool:
    """Return whether a glob matches an agent; one of another rig only by its whole name."""
    names = [str(other.name)]
    if caller.name.rig is None or other.name.rig in (None, caller.name.rig):
        names += (other.name.without_rig, other.name.bare)
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def _subagent(prompts: Prompts, provider: Provider, other: Agent) -> Subagent:
    if other.settings.execution == "container":
        return Subagent(other, left_out=(Lost("agent", "", "it runs in a container"),))
    # A subagent is no session of its own, so it has no values of one.
    prompt = prompts.for_files().of(other)
    if any(problem.is_error for problem in prompt.problems):
        return Subagent(other, left_out=(Lost("agent", "", "its prompt cannot be rendered"),))
    own = prompts.city.provider_of(other)
    file = agent_file(other, prompt.text, FileTarget(provider, words_of=own))
    return Subagent(other, _path(provider, file), file.text, file.lost)


def subagent_problems(city: City, agent: Agent, subagent: Subagent) -> list[Problem]:
    """Return problems for the restrictions and the model that a subagent's file does not carry."""
    place, found = agent.setting("native_subagents").place, []
    for field, value, reason in subagent.left_out:
        if field == "model" or field.startswith("tools."):
            code = "not-in-agent-file" if field == "model" else UNENFORCEABLE
            message = f"subagent `{subagent.agent.name}`: `{field}` {value} is left out: {reason}"
            found.append(warning(code, message, place))
    return as_required(city, found)


def free_agent_name(provider: Provider, agent: Agent, root: str, home: str) -> str:
    """Return another name for a session's own agent if the project or the user has one of its name.

    A provider prefers the user's, or merges the two, so that the rules of one add to those of the
    other (both observed). "" if the usual name is free.
    """
    facts, name = provider.facts.agents, agent_file_name(str(agent.name))
    file = (facts.file or "").replace("{name}", name)
    users = (facts.user_directory or "").replace("~", home, 1)
    paths = [f"{users}/{file}"] if users else []
    documents: list[str] = []
    if facts.deliver != _FILE:  # else the project's file of that name is the session's own
        paths += (f"{root}/{each}/{file}" for each in (facts.directory, *facts.also_reads))
        documents = [f"{root}/{each}" for each in facts.also_reads]
    quoted = f'"{name}"'.encode()
    taken = any(os.path.lexists(path) for path in paths)
    taken = taken or any(quoted in (read_plain(path) or b"") for path in documents)
    return agent_file_name(str(agent.name), _PREFIX) if taken else ""
