"""Reflection: one more run in a session after its work item is done, to note what was learned.

The item is finished before, so nothing that happens to this run changes it: the run has no item of
its own, and a crash, a kill or a timeout ends it for good. It is started at most once. Its session
is busy meanwhile, so no other run uses its directory. In a terminal, the message is typed instead.
"""

from gascity.control.decide.outcome import RunOutcome
from gascity.control.live_state import CONTROLLER, LiveState
from gascity.control.run_config import AgentRunConfig
from gascity.control.start import REFLECTION, SessionStarter
from gascity.memory.reflection import reflection_text
from gascity.model.values import JsonObject
from gascity.model.work import CRASHED, DONE, DRAINING, IDLE, QUARANTINED, Run, Session, Work
from gascity.render.ignored_settings import can_resume_run
from gascity.render.run_output import RunOutput


def about(item: str) -> str:
    """Return what a run or nudge is about that follows an item."""
    return f"{REFLECTION} {item}"


def follows(config: AgentRunConfig, work: Work, run: Run, before: Session) -> bool:
    """Return whether a run that succeeded is followed by a reflection.

    Not if the session was told to end; a session that itself asked to end has finished its work.
    """
    if work.status != DONE or work.no_reflection or run.work != work.id or before.interactive:
        return False
    if (work.session, work.generation) != (run.session, run.generation):
        return False
    ending = before.state == DRAINING and before.asked != "drain"
    if ending and before.reason != f"{work.id} is {DONE}":  # drains because its item is done
        return False
    return config.provider is not None and can_resume_run(config.provider, config.agent)


def start_reflection(live: LiveState, starter: SessionStarter, id: str, item: str) -> None:
    """Start the run that follows an item in its session."""
    session = live.find_session(id)
    config = live.run_config.agent(session.agent) if session is not None else None
    if session is None or config is None or session.state != IDLE or session.run:
        return
    file = config.agent.settings.reflection
    text = reflection_text(config.city, file) if file else ""
    if not text or not session.conversation:
        missing = "its conversation is not known" if text else "the text is empty"
        live.record_decision(item, "note", f"no reflection: {missing}")
        return
    starter.begin(config, session, "", f"reflecting on {item}", about(item), text)


def type_reflection(live: LiveState, config: AgentRunConfig, session: Session, work: Work) -> None:
    """Have the message typed into the terminal of a session whose item is done.

    The session counts as busy for a while, so that it is not stopped or given another item first.
    """
    file = config.agent.settings.reflection
    text = reflection_text(config.city, file) if file and not work.no_reflection else ""
    if text and config.terminal_rules.can_type:
        live.store.add_nudge(session.id, text, live.now, CONTROLLER, about(work.id))
        live.screens_due.add(session.id)
        live.change(session, busy_until=live.now + config.limits.reflection_timeout)


def neutral(outcome: RunOutcome, session: Session) -> RunOutcome:
    """Return the outcome of a reflection: a crash says nothing about the next item."""
    if outcome.state not in (CRASHED, QUARANTINED):
        return outcome
    return outcome._replace(state=IDLE, session_reason="", crashes=session.crashes, retry_at=None)


def record_reflection(
    live: LiveState, session: Session, about: str, outcome: str, output: RunOutput | None = None
) -> None:
    """Record that a reflection is over, with its cost."""
    item = about.partition(" ")[2]
    data: JsonObject = {"agent": session.agent, "session": session.id, "outcome": outcome}
    data["cost"] = output.cost if output is not None else None
    live.store.record_event("work.reflected", item, live.now, data, CONTROLLER)
    live.record_decision(item, "reflect", outcome)
