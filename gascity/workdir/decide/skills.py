"""Decide what stands in the directories where providers look for skills.

Agents that share a directory are looked at together: whoever looked at one alone would take away
what the others want there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from gascity.model.plan import FILE, LINK, Wanted
from gascity.model.problems import Place, Problem
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.skills import SkillFile


class ClaimedSkill(NamedTuple):
    """A skill that an agent gets. `directory` and `pack` are absolute, `shown` is for people."""

    name: str
    directory: str
    shown: str
    origin: str
    pack: str


class SkillClaim(NamedTuple):
    """What one agent wants. `copies`: what lies outside the directory cannot be seen from it."""

    agent: str
    provider: str
    sink: str  # relative to the working directory; empty where the provider has none
    links: str  # any, or inside: only those that stay in the working directory are followed
    copies: bool
    skills: tuple[ClaimedSkill, ...]


class SkippedSkill(NamedTuple):
    """A skill that an agent does not get in this directory, and why."""

    agent: str
    name: str
    reason: str


class SkillPlan(NamedTuple):
    """What should stand in the sinks of one working directory; problems are by agent."""

    wanted: tuple[Wanted, ...]
    skipped: tuple[SkippedSkill, ...]
    problems: Mapping[str, tuple[Problem, ...]]


class SkillReader(NamedTuple):
    """An agent, where it works, and the provider that looks there."""

    agent: str
    workdir: str
    provider: Provider | None


_Claims = list[tuple[SkillClaim, ClaimedSkill]]


def sink_plan(
    claims: Sequence[SkillClaim],
    workdir: str,
    files_of: Callable[[str], Sequence[SkillFile]],
) -> SkillPlan:
    """Everything that all agents of one working directory want there, each path once.

    `files_of` lists a skill's directory; it is asked only where links cannot work. Skills of one
    name that differ are given to nobody.
    """
    wanted: list[Wanted] = []
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
    """Why an agent of a provider without a sink gets no skills."""
    return f"provider `{provider}` reads no skills"


def _directory(sink: str) -> str:
    return sink.removeprefix("./").rstrip("/")


def _wanted(
    path: str,
    asked: _Claims,
    workdir: str,
    files_of: Callable[[str], Sequence[SkillFile]],
) -> list[Wanted]:
    skill = asked[0][1]
    agents = tuple(dict.fromkeys(claim.agent for claim, _ in asked))
    inside = f"{skill.directory}/".startswith(f"{workdir.rstrip('/')}/")
    # A copy serves everybody; a link only those that can follow it.
    if all(not claim.copies and (claim.links != "inside" or inside) for claim, _ in asked):
        return [Wanted(path, LINK, skill.shown, skill.origin, agents, target=skill.directory)]
    return [
        Wanted(
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
        f"skill `{name}` in {sink} is not the same for all who share it ({theirs})",
        Place(min(sources)),
        "rename one of the skills, or let the agents work in directories of their own",
    )


def readers_of(one: SkillReader, others: Iterable[SkillReader]) -> tuple[str, ...]:
    """Other agents of the same working directory that read what stands in the sink of `one`."""
    sink = _directory(one.provider.text("skills.directory")) if one.provider else ""
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
    """Everywhere a provider looks for skills in a project, its own sink first."""
    if provider is None:
        return ()
    more = provider.value("skills.also_reads")
    found = (provider.text("skills.directory"), *(more if isinstance(more, tuple) else ()))
    return tuple(_directory(str(one)) for one in found if one)
