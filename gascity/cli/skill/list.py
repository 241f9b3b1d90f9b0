"""`city skill list` and `check`; skills as JSON objects, and the skills that one agent gets."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from gascity.cli.cached_answer import Report, answer_and_cache
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option, completes
from gascity.cli.output import CYAN, DIM, YELLOW, plural, print_stderr, wrap
from gascity.cli.problems import Locator, problems_json, status_of, summary
from gascity.cli.session.find import find_session, refuse_both, session_option
from gascity.cli.tables import Entry
from gascity.model.city import Agent, City
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject
from gascity.pipeline import ResolvedSkill, SkillsRead, agent_skills, every_skill, list_skills
from gascity.source.catalogues import Skill
from gascity.source.disk import Disk


class AgentSkills(NamedTuple):
    """An agent's skills; `sink` is empty if its provider does not support skills."""

    skills: tuple[ResolvedSkill, ...]
    sink: str
    readers: tuple[str, ...]


def load_agent_skills(context: CommandContext, city: City, agent: Agent) -> AgentSkills:
    """Return every skill an agent could have; skipped ones have a reason."""
    from gascity.location import IN_PLACE, locate

    disk = Disk(city.root)
    provider = city.provider_of(agent)
    sink = provider.facts.skills.directory if provider else ""
    read: SkillsRead = {}
    entries = agent_skills(city, disk, agent, read)
    if not sink:
        from gascity.workdir.decide.skills import no_sink

        reason = no_sink(agent.provider)
        skipped = (entry._replace(reason=entry.reason or reason) for entry in entries)
        return AgentSkills(tuple(skipped), "", ())
    if locate(city, agent, disk).kind != IN_PLACE and not agent.settings.work_dir:
        return AgentSkills(tuple(entries), sink, ())
    return _shared_directory(context, agent, entries, sink, read)


def _shared_directory(
    context: CommandContext,
    agent: Agent,
    entries: Sequence[ResolvedSkill],
    sink: str,
    read: SkillsRead,
) -> AgentSkills:
    """Like `load_agent_skills`, where agents may share the directory: loads the whole city."""
    from gascity.location import Sites
    from gascity.workdir.decide.skills import SkillReader, readers_of, sink_plan
    from gascity.workdir.wanted import skill_claim

    whole_city = context.city()
    disk = Disk(whole_city.root)
    sites = Sites(whole_city, disk, context.environ)
    name, workdir = str(agent.name), sites.of(agent).workdir
    others = [
        other
        for other in whole_city.agents
        if str(other.name) != name and workdir and sites.of(other).workdir == workdir
    ]
    readers = [
        SkillReader(str(other.name), workdir, whole_city.provider_of(other))
        for other in (agent, *others)
    ]
    claims = (
        [skill_claim(whole_city, disk, user, read) for user in (agent, *others)] if others else []
    )
    plan = sink_plan(claims, workdir, lambda _: ())
    clashes = {skip.name: skip.reason for skip in plan.skipped if skip.agent == name}
    skills = (
        entry._replace(reason=entry.reason or clashes.get(entry.skill.name, ""))
        for entry in entries
    )
    return AgentSkills(tuple(skills), sink, readers_of(readers[0], readers[1:]))


def unknown_skill(name: str, known: Iterable[str], hint: str) -> Problem:
    """Return the problem for an unknown skill; `hint` is used if no known name is similar."""
    hint = did_you_mean(name, set(known)) or hint
    return Problem("unknown-skill", f"there is no skill `{name}`", None, hint)


def _names(context: CommandContext) -> list[str]:
    city = context.city()
    return sorted({entry.skill.name for entry in list_skills(city, Disk(city.root))})


complete_skill = completes(_names)


def skill_row(entry: ResolvedSkill, locator: Locator) -> JsonObject:
    """Return a skill as its JSON object."""
    return {
        "name": entry.skill.name,
        "description": entry.skill.description,
        "origin": entry.origin,
        "path": entry.skill.path,
        "sink": None,
        "shadows": list(entry.shadows),
        "problems": problems_json(entry.skill.problems, locator),
    }


def agent_skill_row(entry: ResolvedSkill, skills: AgentSkills, locator: Locator) -> JsonObject:
    """Return a skill of one agent as its JSON object."""
    return {
        **skill_row(entry, locator),
        "sink": skills.sink or None,
        "status": "skipped" if entry.reason else "ok",
        "reason": entry.reason or None,
        "readers": list(skills.readers),
    }


@json_command(
    "list",
    examples=("city skill list", "city skill list --agent mayor"),
    page="how-to/skills",
)
@agent_option("Show the skills this agent gets.")
@session_option
def list_all(context: CommandContext, agent: str | None, session: str | None) -> int:
    """List skills and where they come from.

    With --agent, also lists skipped skills with the reason, the directory in which
    the provider finds them, and the other agents that read it.
    """
    refuse_both(agent, session)
    if agent is None and session is None:
        return answer_and_cache(context, "skill-list", _all_skills)
    target = find_session(context, session) if session is not None else None
    name = target.agent if target else agent or ""
    city, selected = context.agent(name, exact=target is not None)
    skills = load_agent_skills(context, city, selected)
    rows = [agent_skill_row(entry, skills, context.locator()) for entry in skills.skills]
    answer: JsonObject = {"skills": rows, "project": [], "problems": []}
    lines = list(_agent_skill_lines(context, skills)) if not context.as_json else []
    problems: Sequence[Problem] = ()
    if selected.name.rig is not None:
        from gascity.cli.project import load_project, project_json, project_lines
        from gascity.workdir.project_files import SKILL

        project = load_project(context, city, selected)
        items, problems = project.of_kind(SKILL), project.problems
        lines += ["", *project_lines(context, project, items)] if items else []
        answer["project"] = project_json(items)
        answer["problems"] = context.problems_json(problems)
    if target:
        answer["session"] = target.id
    context.output(answer, lambda: lines, problems)
    print_stderr(*_notes(skills.skills))
    return 0


def _all_skills(context: CommandContext, disk: Disk) -> Report:
    locator = context.locator()
    entries = list_skills(context.city(disk=disk), disk)
    head = f"{plural(len(entries), 'skill')}:" if entries else "No skills."
    return Report(
        lambda: {"skills": [skill_row(entry, locator) for entry in entries]},
        lambda: (head, *context.entries([_entry(entry) for entry in entries])),
        _notes(entries),
    )


def _notes(entries: Iterable[ResolvedSkill]) -> tuple[str, ...]:
    names = ", ".join(entry.skill.name for entry in entries if entry.skill.problems)
    return (f"city: problems in {names}; run `city skill check` for details",) if names else ()


def _agent_skill_lines(context: CommandContext, skills: AgentSkills) -> Iterator[str]:
    """Yield an agent's skills, the reasons of skipped ones, and other agents that read them."""
    entries = skills.skills
    skipped = sum(1 for entry in entries if entry.reason)
    head = plural(len(entries) - skipped, "skill")
    head += f" in {skills.sink}" if skipped < len(entries) else ""
    head += f", {skipped} skipped" if skipped else ""
    yield f"{head}:" if entries else "No skills."
    yield from context.entries([_entry(entry) for entry in entries])
    if skills.readers and skipped < len(entries):
        yield ""
        yield from wrap(f"Also read by {', '.join(skills.readers)}.", context.width)


def _entry(entry: ResolvedSkill) -> Entry:
    skill = entry.skill
    details = [(f"{entry.origin}: {skill.path}", CYAN if entry.origin == "agent" else DIM)]
    details += [(f"overrides {path}", DIM) for path in entry.shadows]
    details += [(f"skipped: {entry.reason}", YELLOW)] if entry.reason else []
    text = skill.description or "(no description)"
    return Entry(skill.name, (text,), details=tuple(details))


@json_command(
    "check",
    examples=("city skill check", "city skill check release-notes"),
    page="how-to/skills",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_skill)
def check_skills(context: CommandContext, names: tuple[str, ...]) -> int:
    """Validate skills.

    Checks all skills of the city, its imports and agents, or the named ones, against
    the Agent Skills format. Exits with 1 if a skill is invalid and therefore skipped.
    """
    city = context.city()
    skills = [entry.skill for entry in every_skill(city, Disk(city.root))]
    known = {skill.name for skill in skills}
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = "run `city skill list` to see the skills"
        raise CityError(*(unknown_skill(name, known, hint) for name in unknown))
    chosen = [skill for skill in skills if not names or skill.name in names]
    problems = [problem for skill in chosen for problem in skill.problems]
    if not context.as_json:
        context.print_problems(problems)
    locator = context.locator()
    context.output(
        lambda: {"results": [_check_json(skill, locator) for skill in chosen]},
        lambda: [f"{plural(len(chosen), 'skill')}: {summary(problems) or 'no problems'}"],
    )
    return int(any(skill.broken for skill in chosen))


def _check_json(skill: Skill, locator: Locator) -> JsonObject:
    return {
        "name": skill.name,
        "path": skill.path,
        "status": status_of(skill.problems),
        "problems": problems_json(skill.problems, locator),
    }
