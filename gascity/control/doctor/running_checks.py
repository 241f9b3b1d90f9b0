"""The running controller and its sessions: its state, its environment, and open dialogs."""

import os
from collections.abc import Iterator, Sequence

from gascity.control.client import controller_state, not_responding, send_request
from gascity.control.doctor.diagnosis import Diagnosis, DoctorContext
from gascity.control.environment import variable_digest
from gascity.model.problems import Problem, warning
from gascity.model.secrets import names_in
from gascity.model.work import WAITING, Session
from gascity.paths import which

_RESTART = "city restart"


def check_controller(context: DoctorContext) -> Diagnosis:
    """Report whether the controller runs and responds."""
    state = controller_state(context.root)
    if not state.running:
        return Diagnosis("not running")
    if send_request(context.root, {"op": "ping"}) is not None:
        return Diagnosis(f"running, pid {state.pid}")
    hint = f"run `{_RESTART}` to replace it; sessions keep running"
    problem = Problem("controller-hung", not_responding(state.pid), None, hint)
    return Diagnosis("not responding", (problem,), _RESTART)


def check_environment(context: DoctorContext) -> Diagnosis:
    """Compare the controller's environment with the caller's: PATH, and what agents refer to."""
    if not controller_state(context.root).running:
        return Diagnosis("no controller to compare with")
    salt = os.urandom(16).hex()
    names = _named_variables(context)
    request = {"op": "environment", "names": names, "salt": salt}
    reply = send_request(context.root, request)
    match reply:
        case {"path": str(path), "digests": dict(digests)}:
            texts = list(_missing_programs(context, path))
            for name in names:
                theirs, ours = digests.get(name, ""), variable_digest(context.environ, name, salt)
                if theirs != ours:
                    texts.append(_difference(name, bool(theirs), bool(ours)))
        case _:
            return Diagnosis("the controller is of another version; cannot be compared")
    if not texts:
        return Diagnosis(f"the same as in this shell; variables compared: {len(names)}")
    hint = f"run `{_RESTART}` in this shell; sessions keep running"
    problems = tuple(warning("environment-differs", text, None, hint) for text in texts)
    return Diagnosis("the controller has another environment", problems, _RESTART)


def _difference(name: str, theirs: bool, ours: bool) -> str:
    if theirs and ours:
        return f"{name} has another value for the controller than here"
    return f"{name} is set {'here, but not for' if ours else 'only for'} the controller"


def _missing_programs(context: DoctorContext, path: str) -> Iterator[str]:
    """Yield what is on the caller's PATH, but not on that of the controller."""
    city = context.city
    if city is None:
        return
    used = {agent.provider for agent in city.agents}
    programs = {p.facts.command or "" for name, p in city.providers.items() if name in used}
    theirs = {**context.environ, "PATH": path}
    for program in sorted(programs):
        if which(program, context.environ) and not which(program, theirs):
            yield f"`{program}` is on PATH here, but not on the PATH of the controller"


def _named_variables(context: DoctorContext) -> list[str]:
    """Return the variables that the settings and MCP servers of agents refer to."""
    from gascity.mcp.servers import ServerResolver
    from gascity.prompts import Prompts
    from gascity.source.disk import Disk

    city = context.city
    if city is None:
        return []
    texts: list[str] = []
    resolver = ServerResolver(Prompts(city, Disk(city.root), context.machine, lambda: city))
    for agent in city.agents:
        texts += agent.settings.env.values()
        if not agent.broken:
            for server in resolver.of(agent).servers:
                texts += [server.command, server.url, *server.args]
                texts += [*server.env.values(), *server.headers.values()]
    return sorted({name for text in texts for name in names_in(text)})


def check_waiting(context: DoctorContext) -> Diagnosis:
    """Report sessions whose terminal shows a dialog: trust, login or permission."""
    nothing: Sequence[Session] = ()
    sessions = context.from_store(lambda store: store.sessions(live=True), nothing)
    waiting = [session for session in sessions if session.state == WAITING]
    message = f"{len(sessions)} live"
    problems = tuple(
        warning(
            "session-waiting",
            f"{session.name or session.alias} waits for you: {session.reason}",
            None,
            f"run `city session attach {session.name or session.alias}` and answer",
        )
        for session in waiting
    )
    fix = f"city session attach {waiting[0].name or waiting[0].alias}" if waiting else ""
    return Diagnosis(message, problems, fix)
