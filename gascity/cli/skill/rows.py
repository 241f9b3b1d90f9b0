"""Skills as JSON objects and list entries; the skills that one agent gets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from gascity.cli.context import CommandContext, completion_context
from gascity.cli.output import (
    CYAN,
    DIM,
    YELLOW,
    Column,
    Entry,
    entry_lines,
    json_row,
    plural,
    wrap,
)
from gascity.cli.problems import Locator, problems_json
from gascity.model.city import Agent, City
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.pipeline import ResolvedSkill, SkillsRead, agent_skills, list_skills
from gascity.source.disk import Disk

Row = Mapping[str, object]


class AgentSkills(NamedTuple):
    """An agent's skills; `sink` is empty if its provider does not support skills."""

    skills: tuple[ResolvedSkill, ...]
    sink: str
    readers: tuple[str, ...]


def load_agent_skills(context: CommandContext, city: City, agent: Agent) -> AgentSkills:
    """Return every skill an agent could have; skipped ones have a reason."""
    from gascity.location import IN_PLACE, locate

    disk = Disk(city.root)
    provider = city.providers.get(agent.provider)
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
        SkillReader(str(other.name), workdir, whole_city.providers.get(other.provider))
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
    return Problem(
        "unknown-skill", f"there is no skill `{name}`", None, did_you_mean(name, set(known)) or hint
    )


def complete_skill(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete skill names; a broken city completes nothing rather than failing."""
    del parameter
    try:
        city = completion_context(ctx).city()
        names = {entry.skill.name for entry in list_skills(city, Disk(city.root))}
    except CityError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def _columns(locator: Locator) -> tuple[Column[ResolvedSkill], ...]:
    return (
        Column("name", lambda entry: entry.skill.name),
        Column("description", lambda entry: entry.skill.description),
        Column("origin", lambda entry: entry.origin),
        Column("path", lambda entry: entry.skill.path),
        Column("sink", lambda _: None),
        Column("shadows", lambda entry: list(entry.shadows)),
        Column("problems", lambda entry: problems_json(entry.skill.problems, locator)),
    )


def skill_row(entry: ResolvedSkill, locator: Locator) -> dict[str, object]:
    """Return a skill as its JSON object."""
    return json_row(_columns(locator), entry)


def agent_skill_row(
    entry: ResolvedSkill, skills: AgentSkills, locator: Locator
) -> dict[str, object]:
    """Return a skill of one agent as its JSON object."""
    return {
        **skill_row(entry, locator),
        "sink": skills.sink or None,
        "status": "skipped" if entry.reason else "ok",
        "reason": entry.reason or None,
        "readers": list(skills.readers),
    }


def skill_lines(rows: Sequence[Row], width: int, colour: bool) -> Iterator[str]:
    """Yield the list of skills."""
    yield f"{plural(len(rows), 'skill')}:" if rows else "No skills."
    yield from entry_lines([_entry(row) for row in rows], width, colour)


def agent_skill_lines(
    rows: Sequence[Row], skills: AgentSkills, width: int, colour: bool
) -> Iterator[str]:
    """Yield an agent's skills, the reasons of skipped ones, and other agents that read them."""
    skipped = sum(1 for row in rows if row["reason"])
    head = plural(len(rows) - skipped, "skill")
    head += f" in {skills.sink}" if skipped < len(rows) else ""
    head += f", {skipped} skipped" if skipped else ""
    yield f"{head}:" if rows else "No skills."
    yield from entry_lines([_entry(row) for row in rows], width, colour)
    if skills.readers and skipped < len(rows):
        yield ""
        yield from wrap(f"Also read by {', '.join(skills.readers)}.", width)


def _entry(row: Row) -> Entry:
    shadows = row["shadows"]
    details = [(f"{row['origin']}: {row['path']}", CYAN if row["origin"] == "agent" else DIM)]
    details += [
        (f"overrides {path}", DIM) for path in (shadows if isinstance(shadows, list) else ())
    ]
    details += [(f"skipped: {row['reason']}", YELLOW)] if row.get("reason") else []
    text = str(row["description"]) or "(no description)"
    return Entry(str(row["name"]), (text,), details=tuple(details))
