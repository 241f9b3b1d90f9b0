"""Sessions, runs, work items and decisions as JSON objects, table rows and labelled facts."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gascity.cli.context import CommandContext
from gascity.cli.identity import access
from gascity.cli.output import (
    DIM,
    RED,
    YELLOW,
    display_path,
    printable,
    text_lines,
    time_ago,
    timestamp,
)
from gascity.cli.problems import city_error
from gascity.cli.tables import Column, json_row
from gascity.control.permissions import SEEN
from gascity.model.names import did_you_mean, parse_name
from gascity.model.values import JsonObject
from gascity.model.work import (
    CRASHED,
    IDLE,
    LIVE,
    OPEN,
    QUARANTINED,
    RATE_LIMITED,
    UNKNOWN,
    WAITING,
    Decision,
    Run,
    Session,
    Work,
    status_word,
)
from gascity.store.port import Store

LABEL = 14  # width of labels
STATE_STYLES = {
    **dict.fromkeys((CRASHED, QUARANTINED), RED),
    **dict.fromkeys((RATE_LIMITED, UNKNOWN, WAITING), YELLOW),
    IDLE: DIM,
}
_ID_LETTERS = 8  # of a session's id in tables
_SIMILAR = 500  # latest work items among which similar ids are searched
_REMINDER = "system-reminder"

# Sessions


def session_name(session: Session) -> str:
    """Return the name that the user gave, else the alias."""
    return session.name or session.alias


def age_start(session: Session) -> float:
    """Return the time from which the age counts: the last start of a live session, else the end."""
    if session.state in LIVE:
        return session.started or session.created
    return session.updated


def _session_columns(
    root: str, now: float, colours: Mapping[str, str]
) -> tuple[Column[Session], ...]:
    def colour(session: Session) -> str:
        return colours.get(session.agent, "")

    return (
        Column("id", lambda s: s.id, "ID", lambda s: s.id[:_ID_LETTERS]),
        Column("", session_name, "SESSION", shrink=True),
        Column("agent", lambda s: s.agent, "AGENT", style=colour, shrink=True),
        Column("alias", lambda s: s.alias),
        Column("name", lambda s: s.name or None),
        Column("state", lambda s: s.state, "STATE", style=lambda s: STATE_STYLES.get(s.state, "")),
        Column("", lambda s: s.work, "WORK"),
        Column("", lambda s: time_ago(age_start(s), now), "AGE"),
        Column("reason", lambda s: s.reason, "REASON", _reason, below=True),
        Column("runtime", lambda s: s.runtime),
        Column("pid", lambda s: s.pid or None),
        Column("generation", lambda s: s.generation),
        Column("workdir", lambda s: display_path(root, s.workdir) or None),
        Column("started", lambda s: timestamp(s.started)),
        Column("created", lambda s: timestamp(s.created)),
        Column("updated", lambda s: timestamp(s.updated)),
        Column("attached", lambda s: s.attached),
        Column("pinned", lambda s: s.pinned is not None),
        Column("pinned_at", lambda s: timestamp(s.pinned)),
        Column("work", lambda s: s.work or None),
        Column("origin", lambda s: s.origin),
        Column("slot", lambda s: s.slot),
        Column("interactive", lambda s: s.interactive),
        Column("branch", lambda s: s.branch or None),
        Column("conversation", lambda s: s.conversation or None),
        Column("retry_at", lambda s: timestamp(s.retry_at)),
        Column("asked", lambda s: s.asked or None),
        Column("pending", lambda s: s.pending or None),
        Column("crashes", lambda s: s.crashes),
        Column("last_snippet", lambda s: s.snippet or None),
    )


def _reason(session: Session) -> str:
    marks = ["pinned"] * (session.pinned is not None) + ["attached"] * session.attached
    return f"{session.reason} ({', '.join(marks)})".lstrip() if marks else session.reason


def session_row(session: Session, root: str) -> JsonObject:
    """Return a session as its JSON object."""
    return json_row(_session_columns(root, 0.0, {}), session)


def session_table(context: CommandContext, sessions: Sequence[Session]) -> Iterator[str]:
    """Return the lines of a table of sessions."""
    colours: Mapping[str, str] = {}
    if context.colour and sessions:
        from gascity.cli.agent_colours import agent_styles

        colours = agent_styles(context)
    return context.table(_session_columns("", time.time(), colours), sessions, "No sessions.")


def run_row(run: Run, root: str) -> JsonObject:
    """Return a run as its JSON object."""
    return {
        "id": run.id,
        "generation": run.generation,
        "work": run.work or None,
        "about": run.about or None,
        "runtime": run.runtime,
        "pid": run.pid or None,
        "started": timestamp(run.started),
        "ended": timestamp(run.ended),
        "outcome": run.outcome or None,
        "exit_code": run.exit_code,
        "cost": run.cost,
        "log": display_path(root, run.log) or None,
        "lost_bytes": run.lost_bytes,
    }


# Work items


def find_work(context: CommandContext, id: str) -> Work:
    """Return a work item by id; CityError if there is none, or the caller may not read about it.

    Does not create a store.
    """
    store = context.store_if_any()
    limits = access(context)
    work = store.work(id) if store is not None else None
    if work is None or limits.hides(work.agent):
        listed = store.list_work(limit=_SIMILAR) if store is not None and limits.unlimited else []
        known = [item.id for item in listed]
        # One counter numbers all items: with the same number, only the prefix is wrong, and a
        # different number is not a typo.
        number = id.rpartition("-")[2]
        same = [other for other in known if other.rpartition("-")[2] == number]
        numbered = "-" in id and number.isdecimal()
        similar = did_you_mean(id, known) if not numbered else None
        similar = f"did you mean `{same[0]}`?" if same else similar
        hint = similar or "run `city work list` to see the work items"
        raise city_error("unknown-work", f"there is no work item `{id}`", hint)
    if limits.rule.reach == SEEN:
        limits.check_owner(work.agent, work.session, work.id)
    return work


def _work_columns(root: str, now: float) -> tuple[Column[Work], ...]:
    return (
        Column("id", lambda w: w.id, "ID"),
        Column("", lambda w: status_word(w.status), "STATUS"),
        Column("agent", lambda w: w.agent, "AGENT"),
        Column("rig", lambda w: parse_name(w.agent).rig),
        Column("", lambda w: time_ago(w.created, now), "AGE"),
        Column("", lambda w: w.branch, "BRANCH", omit_if="-", shrink=True),
        Column("", lambda w: w.commits if w.branch else None, "COMMITS", omit_if="-"),
        Column("title", lambda w: w.title, "TITLE", lambda w: w.title),
        Column("status", lambda w: w.status),
        Column("reason", lambda w: w.reason),
        Column("priority", lambda w: w.priority),
        Column("attempts", lambda w: w.attempts),
        Column("failures", lambda w: w.failures),
        Column("created", lambda w: timestamp(w.created)),
        Column("updated", lambda w: timestamp(w.updated)),
        Column("not_before", lambda w: timestamp(w.not_before)),
        Column("session", lambda w: w.session or None),
        Column("depends_on", lambda w: list(w.depends_on)),
        Column("branch", lambda w: w.branch or None),
        Column("workdir", lambda w: display_path(root, w.workdir) or None),
        Column("commits", lambda w: w.commits),
        Column("result", lambda w: w.result._asdict() if w.result is not None else None),
        Column("log", lambda w: display_path(root, w.log) or None),
        Column("on", lambda w: w.start_from or None),
        Column("sender", lambda w: w.sender),
        Column("parent", lambda w: w.parent or None),
        Column("depth", lambda w: w.depth),
    )


def work_row(work: Work, root: str) -> JsonObject:
    """Return a work item as its JSON object."""
    return json_row(_work_columns(root, 0.0), work)


def work_table(context: CommandContext, items: Sequence[Work]) -> Iterator[str]:
    """Return the lines of a table of work items."""
    return context.table(_work_columns("", time.time()), items, "No work.")


def whole_row(work: Work, root: str, store: Store) -> JsonObject:
    """Return the JSON object with the text, the queue position and dependencies."""
    waiting = work.status == OPEN
    dependencies = store.unfinished_dependencies(work.id) if waiting else []
    return {
        **work_row(work, root),
        "body": work.body,
        "position": store.position(work.id, time.time()) if waiting else None,
        "waits_for": [item.id for item in dependencies],
    }


def state_facts(
    work: Work, store: Store, word: Callable[[str], str] = status_word
) -> Iterator[tuple[str, str]]:
    """Yield labelled facts about the state of a work item; `word` names statuses."""
    status = word(work.status)
    yield "Status", f"{status}: {work.reason}" if work.reason else status
    if work.status == OPEN:
        yield from _queue_facts(work, store, word)
    if work.session:
        session = store.session(work.session)
        deleted = f"{work.session} (deleted)"
        name = f"{session_name(session)} ({session.id})" if session is not None else deleted
        yield ("Reserved for" if work.status == OPEN else "Session"), name
    if work.attempts:
        failures = f", {work.failures} failed" if work.failures else ""
        yield "Attempts", f"{work.attempts}{failures}"


def _queue_facts(work: Work, store: Store, word: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield what a queued item waits for; its position only if it waits for nothing else."""
    now = time.time()
    waits = [f"{item.id} ({word(item.status)})" for item in store.unfinished_dependencies(work.id)]
    delayed = work.not_before is not None and work.not_before > now
    if waits:
        yield "Waits for", ", ".join(waits)
    if delayed:
        yield "Not before", str(timestamp(work.not_before))
    if not waits and not delayed:
        ahead = store.position(work.id, now)
        yield "Queue", f"{ahead} ahead" if ahead else "next"


# Decisions


def decision_row(decision: Decision) -> JsonObject:
    """Return a decision as its JSON object."""
    return {**decision._asdict(), "at": timestamp(decision.at)}


def repeats(decision: Decision) -> str:
    """Return how often a decision was repeated, if it was."""
    return f" (×{decision.times})" if decision.times > 1 else ""


# Texts for agents


def work_text(work: Work) -> Iterator[str]:
    """Yield the title and the text of an item, for the agent that works on it."""
    yield f"{work.id}: {work.title}"
    yield ""
    yield from text_lines(work.body)


def reminder(lines: Iterable[str], *, keep_spaces: bool = False) -> list[str]:
    """Wrap lines for a provider's hook in a block that their text cannot close."""
    # Replaced, not removed: what remains around a removed text could close the block.
    safe = (printable(line).replace(f"</{_REMINDER}", f"<\\/{_REMINDER}") for line in lines)
    inside = (line.rstrip() if keep_spaces else " ".join(line.split()) for line in safe)
    return [f"<{_REMINDER}>", *inside, f"</{_REMINDER}>"]
