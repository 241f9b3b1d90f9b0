"""Skills as rows: the JSON objects of the contract and the lines people read."""

from collections.abc import Iterable, Mapping, Sequence

from gascity.cli.context import Context
from gascity.cli.output import BOLD, CYAN, DIM, YELLOW, paint, wrap
from gascity.cli.problems import Locator, problems_json
from gascity.model.city import Agent, City
from gascity.model.records import NamedTuple
from gascity.pipeline import ShelvedSkill, SkillsRead, agent_skills, skill_claim
from gascity.source.disk import Disk

Row = Mapping[str, object]


class Reach(NamedTuple):
    """An agent's skills where it works: `sink` is empty where its provider reads none."""

    skills: tuple[ShelvedSkill, ...]
    sink: str
    readers: tuple[str, ...]


def reach(context: Context, city: City, agent: Agent) -> Reach:
    """Every skill an agent might have, each that it does not get with the reason."""
    from gascity.sites import PLACE, locate

    disk = Disk(city.root)
    provider = city.providers.get(agent.provider)
    sink = provider.text("skills.directory") if provider else ""
    read: SkillsRead = {}
    found = agent_skills(city, disk, agent, read)
    if not sink:
        from gascity.plan.skills import no_sink

        why = no_sink(agent.provider)
        return Reach(tuple(one._replace(reason=one.reason or why) for one in found), "", ())
    if locate(city, agent, disk).kind != PLACE and not agent.value("work_dir"):
        return Reach(tuple(found), sink, ())
    return _shared(context, agent, found, sink, read)


def _shared(
    context: Context, agent: Agent, found: Sequence[ShelvedSkill], sink: str, read: SkillsRead
) -> Reach:
    """The same where others may work in the directory too: all of the city is looked at."""
    from gascity.plan.skills import SkillReader, readers_of, sink_plan
    from gascity.sites import Sites

    everyone = context.city()
    disk = Disk(everyone.root)
    sites = Sites(everyone, disk, context.environ)
    name, workdir = str(agent.name), sites.of(agent).workdir
    mates = [
        other
        for other in everyone.agents
        if str(other.name) != name and workdir and sites.of(other).workdir == workdir
    ]
    readers = [
        SkillReader(str(other.name), workdir, everyone.providers.get(other.provider))
        for other in (agent, *mates)
    ]
    claims = [skill_claim(everyone, disk, one, read) for one in (agent, *mates)] if mates else []
    plan = sink_plan(claims, workdir, lambda _: ())
    clashes = {one.name: one.reason for one in plan.skipped if one.agent == name}
    skills = (one._replace(reason=one.reason or clashes.get(one.skill.name, "")) for one in found)
    return Reach(tuple(skills), sink, readers_of(readers[0], readers[1:]))


def skill_row(one: ShelvedSkill, locator: Locator) -> dict[str, object]:
    """One skill as `skill list --json` gives it."""
    return {
        "name": one.skill.name,
        "description": one.skill.description,
        "origin": one.origin,
        "path": one.skill.path,
        "sink": None,
        "shadows": list(one.shadows),
        "problems": problems_json(one.skill.problems, locator),
    }


def reach_row(one: ShelvedSkill, found: Reach, locator: Locator) -> dict[str, object]:
    """One skill as `skill list --agent A --json` gives it."""
    return {
        **skill_row(one, locator),
        "sink": found.sink or None,
        "status": "skipped" if one.reason else "ok",
        "reason": one.reason or None,
        "readers": list(found.readers),
    }


def skill_lines(rows: Sequence[Row], columns: int, colour: bool) -> Iterable[str]:
    """Skills as people read them: name, description, origin."""
    yield f"{_counted(len(rows))}:" if rows else "No skills."
    yield from _row_lines(rows, columns, colour)


def reach_lines(rows: Sequence[Row], found: Reach, columns: int, colour: bool) -> Iterable[str]:
    """What an agent gets and does not get, where it stands, and who else sees it."""
    skipped = sum(1 for row in rows if row["reason"])
    head = _counted(len(rows) - skipped)
    head += f" in {found.sink}" if skipped < len(rows) else ""
    head += f", {skipped} skipped" if skipped else ""
    yield f"{head}:" if rows else "No skills."
    yield from _row_lines(rows, columns, colour)
    if found.readers and skipped < len(rows):
        yield ""
        yield from wrap(f"Also read by {', '.join(found.readers)}.", columns)


def _counted(number: int) -> str:
    return f"{number} skill{'' if number == 1 else 's'}"


def _row_lines(rows: Sequence[Row], columns: int, colour: bool) -> Iterable[str]:
    if not rows:
        return
    names = min(max(len(str(row["name"])) for row in rows), 30)
    indent = names + 4
    room = max(20, columns - indent)
    for row in rows:
        yield ""
        name = str(row["name"])
        first, *rest = wrap(str(row["description"]) or "(no description)", room)
        yield f"  {paint(name, BOLD, colour)}{' ' * (names - len(name))}  {first}".rstrip()
        for line in rest:
            yield " " * indent + line
        origin = f"{row['origin']}: {row['path']}"
        yield " " * indent + paint(origin, CYAN if row["origin"] == "agent" else DIM, colour)
        shadows = row["shadows"]
        for shadow in shadows if isinstance(shadows, list) else ():
            yield " " * indent + paint(f"covers {shadow}", DIM, colour)
        for line in wrap(f"skipped: {row['reason']}", room) if row.get("reason") else ():
            yield " " * indent + paint(line, YELLOW, colour)
