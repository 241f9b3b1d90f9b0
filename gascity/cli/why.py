"""`city why`: explain the state of a work item, session or agent."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import click

from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, machine
from gascity.cli.fast_sling import sender
from gascity.cli.output import BOLD, styled, time_ago, timestamp, wrap
from gascity.cli.records import LABEL, decision_row, repeats, session_name, state_facts
from gascity.cli.session.find import find_agent_or_session
from gascity.cli.tables import fact_lines
from gascity.control.blocked import blocked_as_shown, reason_note
from gascity.control.client import controller_state, send_request
from gascity.control.decide.types import Blocked
from gascity.model.problems import CityError, Problem
from gascity.model.work import CLAIMED, LIVE, OPEN, Decision, Session, Work, status_word
from gascity.store.port import Store

_MOST = 50
# JSON keys that differ from their labels, which were reworded later.
_JSON_KEYS = {
    "Attempts": "starts",
    "Requested": "asked",
    "Reserved for": "only_for",
    "Retry at": "again_at",
}


class _Subject(NamedTuple):
    """The item in question: its state, and the subjects whose decisions explain it."""

    kind: str
    name: str
    facts: tuple[tuple[str, str], ...]
    about: tuple[str, ...]
    blocked_by: tuple[Blocked, ...] = ()
    since: float = 0.0


@json_command(
    "why",
    examples=("city why w-1", "city why mayor-1", "city why mayor"),
    page="reference/waiting",
)
@click.argument("reference", metavar="WORK|SESSION|AGENT")
def why(context: CommandContext, reference: str) -> int:
    """Explain the current state of a work item, session or agent.

    Shows what blocks it and the scheduling decisions, latest first.
    """
    store = context.store_if_any()
    subject = _find_subject(context, store, reference)
    recent = store.decisions(subject.about, _MOST) if store is not None else []
    decisions = [decision for decision in recent if decision.at >= subject.since]
    return context.output(
        lambda: {
            "subject": subject.name,
            "kind": subject.kind,
            "now": {_json_key(label): fact for label, fact in subject.facts},
            "blocked_by": [reason._asdict() for reason in subject.blocked_by],
            "decisions": [decision_row(decision) for decision in decisions],
        },
        lambda: _lines(context, subject, decisions),
    )


def _find_subject(context: CommandContext, store: Store | None, reference: str) -> _Subject:
    work = store.work(reference) if store is not None else None
    if work is not None and store is not None:
        return _of_work(context, store, work)
    try:
        agent, session = find_agent_or_session(context, reference)
    except CityError as error:
        problems = [_unknown(reference, problem) for problem in error.problems]
        raise CityError(*problems) from None
    if session is not None:
        return _Subject("session", session.id, tuple(_session_facts(session)), (session.id,))
    return _of_agent(context, store, agent)


def _unknown(reference: str, problem: Problem) -> Problem:
    """Reword an unknown agent: the name is no work item or session either."""
    if problem.code != "unknown-agent":
        return problem
    message = f"no work item, session or agent is named `{reference}`"
    hint = problem.hint
    if hint is None or "did you mean" not in hint:
        hint = "run `city work list`, `city session list` or `city agent list` to see the names"
    return problem._replace(message=message, hint=hint)


def _of_work(context: CommandContext, store: Store, work: Work) -> _Subject:
    """Describe a work item. Its agent's decisions explain a queued item, not a finished one."""
    word = str if context.as_json else status_word
    state = state_facts(work, store, word)
    facts = (("Title", work.title), ("Agent", work.agent), *state)
    if work.status != OPEN:
        about = (work.id, work.session) if work.session else (work.id,)
        return _Subject("work", work.id, facts, about, since=work.created)
    blocked = _blocked(context, store, work.agent, work)
    return _Subject("work", work.id, facts, (work.id, work.agent), blocked, work.created)


def _blocked(
    context: CommandContext, store: Store, agent: str, work: Work | None = None
) -> tuple[Blocked, ...]:
    """Return what the controller reported; without one, also what this machine shows."""
    send_request(context.root, {"op": "ping", **sender(context.environ)})  # does it respond?
    shown = blocked_as_shown(store, context.root, agent, work)
    if controller_state(context.root).running:
        return shown
    return tuple(dict.fromkeys((*shown, *_obstacles(context, store, agent, work))))


def _obstacles(
    context: CommandContext, store: Store | None, name: str, work: Work | None = None
) -> tuple[Blocked, ...]:
    """Return what would block an agent, or one of its items, if a controller were started."""
    from gascity.control.blocked import agent_obstacles, blocked_now
    from gascity.control.run_config import RunConfig

    try:
        city, _ = context.agent(name, exact=True)
    except CityError:  # `city check` reports it
        return ()
    run_config = RunConfig(city, context.environ, machine())
    config = run_config.agent(name)
    if config is None:
        return ()
    if store is not None and work is not None:
        return blocked_now(run_config, store, config, work, time.time())
    return agent_obstacles(run_config, config)


def _session_facts(session: Session) -> Iterator[tuple[str, str]]:
    yield "Session", session_name(session)
    yield "Agent", session.agent
    yield "State", f"{session.state}: {session.reason}" if session.reason else session.state
    if session.work:
        yield "Work", session.work
    if session.asked:
        yield "Requested", session.asked
    if session.pending:
        yield "Pending", session.pending
    if session.retry_at is not None:
        yield "Retry at", str(timestamp(session.retry_at))


def _of_agent(context: CommandContext, store: Store | None, name: str) -> _Subject:
    if store is None:
        blocked = _obstacles(context, store, name)
        return _Subject("agent", name, (("Agent", name), ("Queue", "no work")), (name,), blocked)
    word = str if context.as_json else status_word
    counts = store.work_counts(name)
    sessions = store.sessions(agent=name)
    live = [session for session in sessions if session.state in LIVE]
    running = controller_state(context.root).running
    reason = store.get_note(reason_note(name)) if running else ""  # out of date without one
    facts = (
        ("Agent", name),
        ("Queue", f"{counts[OPEN]} {word(OPEN)}, {counts[CLAIMED]} {word(CLAIMED)}"),
        ("Sessions", ", ".join(f"{session_name(s)} ({s.state})" for s in live) or "none"),
        *((("Reason", reason),) if reason else ()),
    )
    blocked = _blocked(context, store, name) if counts[OPEN] else _obstacles(context, store, name)
    return _Subject("agent", name, facts, (name, *(session.id for session in sessions)), blocked)


def _json_key(label: str) -> str:
    return _JSON_KEYS.get(label, label.lower().replace(" ", "_"))


def _lines(context: CommandContext, subject: _Subject, decisions: list[Decision]) -> Iterator[str]:
    reasons = [r for r in subject.blocked_by if r.code != "dependency"]
    blocked = [("Blocked", reason.message) for reason in reasons]
    yield from fact_lines((*subject.facts, *blocked), LABEL, context.width)
    yield ""
    if not decisions:
        yield "No scheduling decision yet."
        return
    yield styled("Decisions, latest first:", BOLD, context.colour)
    now = time.time()
    for decision in decisions:
        reason = f": {decision.reason}" if decision.reason else ""
        text = f"{decision.action}{reason}{repeats(decision)}"
        first, *rest = wrap(text, context.width - 8)
        yield f"  {time_ago(decision.at, now):>4}  {first}"
        yield from (" " * 8 + line for line in rest)
