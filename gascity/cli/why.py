"""`city why`: how work, a session or an agent stands, and what was decided about it."""

import time
from collections.abc import Iterator

import click

from gascity.cli.context import Context, json_option, pass_context
from gascity.cli.output import BOLD, ago, moment, paint, wrap
from gascity.cli.session_rows import called
from gascity.cli.whom import agent_or_session
from gascity.cli.work_rows import standing
from gascity.control.client import controller_state
from gascity.control.inspect import reason_key
from gascity.control.world import Blocked
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.model.work import CLAIMED, LIVE, OPEN, Decision, Session, Work
from gascity.store.port import Store

_MOST = 50
_INDENT = 12


class Case(NamedTuple):
    """What is asked about: how it stands, and whose decisions explain that."""

    kind: str
    subject: str
    facts: tuple[tuple[str, str], ...]
    about: tuple[str, ...]
    blocked_by: tuple[Blocked, ...] = ()
    since: float = 0.0


@click.command()
@click.argument("reference", metavar="WORK|SESSION|AGENT")
@json_option
@pass_context
def why(context: Context, reference: str) -> int:
    """Say how work, a session or an agent stands, and why: what was decided, the latest first."""
    store = context.store_if_any()
    case = _case(context, store, reference)
    found = store.decisions(case.about, _MOST) if store is not None else []
    found = [one for one in found if one.at >= case.since]
    context.say(
        lambda: {
            "subject": case.subject,
            "kind": case.kind,
            "now": {name.lower().replace(" ", "_"): fact for name, fact in case.facts},
            "blocked_by": [one._asdict() for one in case.blocked_by],
            "decisions": [_row(one) for one in found],
        },
        lambda: _lines(context, case, found),
    )
    return 0


def _case(context: Context, store: Store | None, reference: str) -> Case:
    work = store.work(reference) if store is not None else None
    if work is not None and store is not None:
        return _of_work(context, store, work)
    try:
        found = agent_or_session(context, store, reference)
    except CityError as error:
        raise CityError(*(_nothing(reference, one) for one in error.problems)) from None
    if isinstance(found, Session):
        return Case("session", found.id, tuple(_session_facts(found)), (found.id,))
    return _of_agent(context, store, found)


def _nothing(reference: str, problem: Problem) -> Problem:
    """What is no agent's name is no work's and no session's either: say all three."""
    if problem.code != "unknown-agent":
        return problem
    words = f"there is no work, session or agent `{reference}`"
    hint = problem.hint
    if hint is None or "did you mean" not in hint:
        hint = "`city work list`, `city session list` and `city agent list` show what there is"
    return problem._replace(message=words, hint=hint)


def _of_work(context: Context, store: Store, work: Work) -> Case:
    """What is decided about its agent explains why it waits, not what became of it."""
    facts = (("Title", work.title), ("Agent", work.agent), *standing(work, store, time.time()))
    if work.status != OPEN:
        about = (work.id, work.session) if work.session else (work.id,)
        return Case("work", work.id, facts, about, since=work.created)
    blocked = (*_dependencies(store, work), *_obstacles(context, store, work.agent))
    return Case("work", work.id, facts, (work.id, work.agent), blocked, work.created)


def _dependencies(store: Store, work: Work) -> list[Blocked]:
    return [
        Blocked("dependency", f"it comes after {one.id}, which is {one.status}")
        for one in store.waits_for(work.id)
    ]


def _obstacles(context: Context, store: Store, agent: str) -> list[Blocked]:
    """What the controller last said stands in an agent's way; without one nothing goes on."""
    if not controller_state(context.root).running:
        return [Blocked("no-controller", "no controller is running; `city start` starts one")]
    code, _, message = store.noted(f"blocked {agent}").partition(" ")
    return [Blocked(code, message)] if message else []


def _session_facts(session: Session) -> Iterator[tuple[str, str]]:
    yield "Session", called(session)
    yield "Agent", session.agent
    yield "State", f"{session.state}: {session.reason}" if session.reason else session.state
    if session.work:
        yield "Work", session.work
    if session.asked:
        yield "Asked", session.asked
    if session.pending:
        yield "Pending", session.pending
    if session.retry_at is not None:
        yield "Again at", str(moment(session.retry_at))


def _of_agent(context: Context, store: Store | None, name: str) -> Case:
    if store is None:
        return Case("agent", name, (("Agent", name), ("Queue", "no work")), (name,))
    counts = store.counts(name)
    sessions = store.sessions(agent=name)
    live = [one for one in sessions if one.state in LIVE]
    reason = store.noted(reason_key(name))
    facts = (
        ("Agent", name),
        ("Queue", f"{counts[OPEN]} open, {counts[CLAIMED]} claimed"),
        ("Sessions", ", ".join(f"{called(one)} ({one.state})" for one in live) or "none live"),
        *((("Reason", reason),) if reason else ()),
    )
    blocked = tuple(_obstacles(context, store, name)) if counts[OPEN] else ()
    return Case("agent", name, facts, (name, *(one.id for one in sessions)), blocked)


def _row(one: Decision) -> dict[str, object]:
    return {
        "at": moment(one.at),
        "subject": one.subject,
        "action": one.action,
        "reason": one.reason,
        "times": one.times,
    }


def _lines(context: Context, case: Case, found: list[Decision]) -> Iterator[str]:
    blocked = [("Blocked by", one.message) for one in case.blocked_by if one.code != "dependency"]
    for name, fact in (*case.facts, *blocked):
        first, *rest = wrap(fact, context.width - _INDENT)
        yield f"{name + ':':<{_INDENT - 1}} {first}"
        yield from (" " * _INDENT + line for line in rest)
    yield ""
    if not found:
        yield "Nothing was decided about it yet."
        return
    yield paint("Decisions, the latest first:", BOLD, context.colour)
    now = time.time()
    for one in found:
        often = f" (so {one.times} times)" if one.times > 1 else ""
        words = f"{one.action}: {one.reason}" if one.reason else one.action
        first, *rest = wrap(f"{words}{often}", context.width - 8)
        yield f"  {ago(one.at, now):>4}  {first}"
        yield from (" " * 8 + line for line in rest)
