"""Decides the contents of the directories where providers look for skills.

Agents that share a working directory are decided together: deciding for one of them alone would
remove the skills of the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.model.problems import Place, Problem
from gascity.model.provider import Provider
from gascity.model.skills import SkillFile
from gascity.model.wanted import FILE, LINK, WantedPath


class ClaimedSkill(NamedTuple):
    """A skill that an agent gets. `directory` and `pack` are absolute, `shown` is for messages."""

    name: str
    directory: str
    shown: str
    origin: str
    pack: str


class SkillClaim(NamedTuple):
    """The skills one agent wants. `copies`: it runs in a container and cannot follow links out."""

    agent: str
    provider: str
    sink: str  # skill directory in the working directory; empty if the provider has none
    links: str  # `any`, or `inside`: the provider follows only links within the directory
    copies: bool
    skills: tuple[ClaimedSkill, ...]


class SkippedSkill(NamedTuple):
    """A skill that an agent does not get, and why."""

    agent: str
    name: str
    reason: str


class SkillPlan(NamedTuple):
    """The wanted skill files of one working directory; problems are by agent."""

    wanted: tuple[WantedPath, ...]
    skipped: tuple[SkippedSkill, ...]
    problems: Mapping[str, tuple[Problem, ...]]


class SkillReader(NamedTuple):
    """An agent with its working directory and provider."""

    agent: str
    workdir: str
    provider: Provider | None


_Claims = list[tuple[SkillClaim, ClaimedSkill]]


def sink_plan(
    claims: Sequence[SkillClaim],
    workdir: str,
    files_of: Callable[[str], Sequence[SkillFile]],
) -> SkillPlan:
    """Return the skills that all agents of one working directory want, each path once.

    `files_of` lists a skill's directory; it is called only if links cannot be used. If skills with
    the same name differ, no agent gets them.
    """
    wanted: list[WantedPath] = []
    skipped: list[SkippedSkill] = []
    problems: dict[str, tuple[Problem, ...]] = {}
    places: dict[tuple[str, str], _Claims] = {}
    for claim in claims:
        for skill in claim.skills:
            if claim.sink:
                places.setdefault((_directory(claim.sink), skill.name), []).append((claim, skill))
            else:
                skipped.append(SkippedSkill(claim.agent, skill.name, no_sink(claim.provider)))
    for (sink, name), asked in sorted(places.items()):
        if len({skill.directory for _, skill in asked}) == 1:
            wanted += _wanted(f"{sink}/{name}", asked, workdir, files_of)
        else:
            problem = _collision(sink, name, asked)
            for claim, _ in asked:
                problems[claim.agent] = (*problems.get(claim.agent, ()), problem)
                skipped.append(SkippedSkill(claim.agent, name, problem.message))
    return SkillPlan(tuple(wanted), tuple(skipped), problems)


def no_sink(provider: str) -> str:
    """Return the reason why agents of a provider without a skill directory get no skills."""
    return f"provider `{provider}` does not support skills"


def _directory(sink: str) -> str:
    return sink.removeprefix("./").rstrip("/")


def _wanted(
    path: str,
    asked: _Claims,
    workdir: str,
    files_of: Callable[[str], Sequence[SkillFile]],
) -> list[WantedPath]:
    skill = asked[0][1]
    agents = tuple(dict.fromkeys(claim.agent for claim, _ in asked))
    inside = f"{skill.directory}/".startswith(f"{workdir.rstrip('/')}/")
    # A link suffices if all agents can follow it; a copy always does.
    if all(not claim.copies and (claim.links != "inside" or inside) for claim, _ in asked):
        return [WantedPath(path, LINK, skill.shown, skill.origin, agents, target=skill.directory)]
    return [
        WantedPath(
            f"{path}/{file.path}",
            FILE,
            f"{skill.shown}/{file.path}",
            skill.origin,
            agents,
            mode=file.mode,
            copy_of=file.absolute,
            stamp=file.stamp,
        )
        for file in files_of(skill.directory)
    ]


def _collision(sink: str, name: str, asked: _Claims) -> Problem:
    sources: dict[str, list[str]] = {}
    for claim, skill in asked:
        sources[skill.shown] = sorted((*sources.get(skill.shown, ()), f"`{claim.agent}`"))
    theirs = "; ".join(f"{', '.join(sources[shown])}: {shown}" for shown in sorted(sources))
    return Problem(
        "skill-collision",
        f"skill `{name}` in {sink} differs between the agents that share it ({theirs})",
        Place(min(sources)),
        "rename one of the skills, or give the agents separate working directories",
    )


def readers_of(one: SkillReader, others: Iterable[SkillReader]) -> tuple[str, ...]:
    """Return other agents in the same working directory whose provider reads the same skills."""
    sink = _directory(one.provider.facts.skills.directory or "") if one.provider else ""
    return tuple(
        other.agent
        for other in others
        if sink
        and one.workdir
        and other.agent != one.agent
        and other.workdir == one.workdir
        and sink in skill_directories(other.provider)
    )


def skill_directories(provider: Provider | None) -> tuple[str, ...]:
    """Return every directory where a provider looks for skills, its own first."""
    if provider is None:
        return ()
    directories = (provider.facts.skills.directory, *provider.facts.skills.also_reads)
    return tuple(_directory(directory) for directory in directories if directory)
