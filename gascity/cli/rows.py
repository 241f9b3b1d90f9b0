"""Agents as rows: the JSON objects of the contract and the lines people read."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from gascity.cli.output import BOLD, DIM, RED, paint, wrap
from gascity.model.city import Agent

Row = Mapping[str, object]
_WRONG = {
    "broken": "broken: `city check` says why",
    "stale": "broken, so its last good definition stays in force: `city check` says why",
}


def agent_row(agent: Agent, stale: Collection[str] = ()) -> dict[str, object]:
    """One agent as `agent list --json` gives it.

    `stale` are broken ones whose last good definition the controller goes by.
    """
    broken = "stale" if str(agent.name) in stale else "broken"
    most = agent.value("max_active_sessions")
    return {
        "name": str(agent.name),
        "bare": agent.name.bare,
        "rig": agent.name.rig,
        "binding": agent.name.binding,
        "provider": agent.provider,
        "description": agent.text("description"),
        "execution": agent.value("execution"),
        "session_state": agent.value("session_state"),
        "hidden": agent.value("hidden"),
        "min": agent.value("min_active_sessions"),
        "max": None if most == -1 else most,
        "source": agent.home.directory,
        "layer": agent.layer,
        "state": broken if agent.broken else "ok",
        "covers": list(agent.covers),
    }


def agent_lines(rows: Sequence[Row], columns: int, colour: bool) -> Iterable[str]:
    """The list people read: name, `[execution, session state]`, description, then its source."""
    yield f"{len(rows)} agent{'' if len(rows) == 1 else 's'}:" if rows else "No agents."
    if not rows:
        return
    names = min(max(len(str(row["name"])) for row in rows), 30)
    tags = max(len(_tag(row)) for row in rows)
    indent = names + 4
    room = max(20, columns - indent - tags - 2)
    for row in rows:
        yield ""
        name, tag = str(row["name"]), _tag(row)
        head = f"  {paint(name, BOLD, colour)}{' ' * (names - len(name))}  {tag:<{tags}}"
        text = str(row["description"]) or "(no description)"
        first, *rest = wrap(text, room)
        yield f"{head}  {first}".rstrip()
        for line in rest:
            yield " " * (indent + tags + 2) + line
        yield " " * indent + paint(f"Source: {source_text(row)}", DIM, colour)
        if row["state"] != "ok":
            yield " " * indent + paint(_WRONG[str(row["state"])], RED, colour)


def _tag(row: Row) -> str:
    return f"[{row['execution']}, {row['session_state']}]"


def source_text(row: Row) -> str:
    """Where an agent comes from: the directory, and what it covers."""
    if row["layer"] == "built-in":
        return "built-in"
    covers = row["covers"]
    if not isinstance(covers, list) or not covers:
        return str(row["source"])
    below = ["the built-in one" if one == "built-in" else str(one) for one in covers]
    return f"{row['source']} (covers {', '.join(below)})"
