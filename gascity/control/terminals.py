"""Watch the screens of sessions in terminals, and type queued texts where it is safe.

A terminal is looked at when it has printed something, that is, when its log grew, and while a text
is queued for it. A terminal that prints nothing costs nothing. What a screen shows counts only if
two looks in a row agree.

A terminal that shows a dialog (trust, login, permission) makes its session `waiting`: it keeps its
slot, gets no work and nothing typed until a user has answered. A new terminal without work stays
`starting` until its screen is known, so that it is never idle behind a dialog.

Typing takes seconds, so a worker thread does it. The nudge is marked as being typed before, in its
own transaction: Enter may run the provider's hooks, and `city hook --inject` must not deliver the
same text again. Only text that was sent is marked as delivered. If the controller is killed in
between, the next one finds the mark and calls the runtime again, which knows whether the text was
sent and types it only if not.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from gascity.control.live_state import ActiveRun, LiveState
from gascity.control.run_config import AgentRunConfig
from gascity.control.start import REFLECTION
from gascity.model.screen import TerminalScreen
from gascity.model.work import IDLE, RUNNING, STARTING, WAITING, Nudge, Session, subject_of
from gascity.render.terminal import DIALOG, READY, ScreenState, TerminalRules

if TYPE_CHECKING:
    from gascity.model.session_changes import SessionChanges

FIRST_LOOK = 0.3  # seconds after the start of a terminal
_SECOND_LOOK = 0.4  # seconds after a look that found something new
_RETRY = 1.0  # seconds after a screen that could not be captured, or a text that was not sent
_QUEUED = 5.0  # seconds between looks while a text is queued and the screen does not change
_BLANK = 10.0  # seconds that a program may show nothing after its start


def text_id(nudge: Nudge) -> str:
    """Return what identifies a nudge for a runtime; a new store may use its number again."""
    return f"{nudge.id}@{nudge.at}"


class TerminalWatch:
    """Looks at terminals when something is due, and never otherwise."""

    def __init__(self, live: LiveState) -> None:
        self.live = live
        self.reset()

    def reset(self) -> None:
        """Forget everything; adoption looks at every terminal again."""
        self._due: dict[str, float] = {}  # by session: when to look
        self._seen: dict[str, tuple[int, ScreenState]] = {}  # the generation and its last screen
        self._at_work: set[str] = set()  # sessions that a worker looks at or types into
        self._jobs: list[Callable[[], None]] = []  # to start once the transaction is committed
        self._unsent: set[int] = set()  # nudges that could not be sent when they were typed

    def next_at(self) -> float | None:
        """Return when the next look is due, by the monotonic clock."""
        return min(self._due.values(), default=None)

    def look_at(self, session: str, wait: float = 0.0) -> None:
        at = self.live.monotonic + wait
        self._due[session] = min(at, self._due.get(session, at))

    def logs_grew(self, logs: Iterable[str]) -> None:
        """Look at the terminals that printed something."""
        grown = set(logs)
        for id, active in self.live.active_runs.items():
            if active.run.log in grown and active.runtime.interactive:
                self.look_at(id)

    def run(self) -> None:
        """Start every look that is due."""
        live = self.live
        due, live.screens_due = live.screens_due, set()
        for id in due:
            self.look_at(id)
        for id in [id for id, at in self._due.items() if at <= live.monotonic]:
            if id in self._at_work:
                continue  # its result decides when to look again
            del self._due[id]
            session, active = live.sessions.get(id), live.active_runs.get(id)
            if session is None or active is None or not session.interactive:
                self._seen.pop(id, None)
                continue
            self._at_work.add(id)
            live.workers.put(
                partial(active.runtime.screen, active.handle),
                partial(self._captured, id, session.generation),
                lambda _, id=id, session=session: self._captured(id, session.generation, None),  # type: ignore[misc]
            )

    def committed(self) -> None:
        """Start to type what was marked as being typed."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job()

    def _session(self, id: str, generation: int) -> tuple[Session, ActiveRun] | None:
        """Return the session and its run, unless the run has ended or was replaced."""
        session, active = self.live.sessions.get(id), self.live.active_runs.get(id)
        if session is None or active is None or session.generation != generation:
            return None
        return session, active

    def _captured(self, id: str, generation: int, screen: TerminalScreen | None) -> None:
        self._at_work.discard(id)
        found = self._session(id, generation)
        config = self.live.run_config.agent(found[0].agent) if found else None
        if found is None or config is None:
            return
        session, active = found
        if screen is None:  # tmux does not respond, or the program is about to exit
            self.look_at(id, _RETRY)
            return
        state = config.terminal_rules.state(screen)
        before, self._seen[id] = self._seen.get(id), (generation, state)
        blank = screen.is_blank and self._has_just_started(config, session)
        if blank or before != (generation, state):
            self.look_at(id, _SECOND_LOOK)
            return
        session = self._record(session, state)
        self._deliver(session, active, config.terminal_rules, state)

    def _has_just_started(self, config: AgentRunConfig, session: Session) -> bool:
        limit = max(_BLANK, (config.agent.settings.ready_delay_ms or 0) / 1000)
        return session.state == STARTING and self.live.now < (session.started or 0.0) + limit

    def _record(self, session: Session, state: ScreenState) -> Session:
        """Record that a session waits for its user, or no longer does."""
        live = self.live
        if state.kind == DIALOG:
            reason = f"waiting for you: {state.name} (`city session attach {session.alias}`)"
            if session.state in (STARTING, RUNNING, IDLE, WAITING) and session.reason != reason:
                live.record_decision(session.id, "wait", reason)
                columns: SessionChanges = {"state": WAITING, "reason": reason, "idle_since": None}
                return live.change(session, "session.waiting", **columns)
        elif session.state in (STARTING, WAITING) and session.work:
            reason = f"working on {session.work}"
            return live.change(session, "session.changed", state=RUNNING, reason=reason)
        elif session.state in (STARTING, WAITING):
            idle: SessionChanges = {"state": IDLE, "reason": "", "idle_since": live.now}
            return live.change(session, "session.changed", **idle)
        return session

    # Typing

    def _deliver(
        self, session: Session, active: ActiveRun, rules: TerminalRules, state: ScreenState
    ) -> None:
        """Have the next queued text typed if the terminal is ready for it."""
        nudge = self._next_nudge(session) if rules.can_type else None
        if nudge is None:
            return
        # A text that was typed, but may not have been sent, can be what the input line shows.
        may_type = state.kind == READY or nudge.typing is not None or nudge.id in self._unsent
        if not may_type or not self.live.store.set_typing(nudge.id, self.live.now):
            self.look_at(session.id, _QUEUED)
            return
        self._at_work.add(session.id)
        text = rules.text_to_type(nudge.text)
        typed = partial(self._typed, session.id, session.generation, nudge)
        self._jobs.append(
            partial(
                self.live.workers.put,
                partial(active.runtime.type_text, active.handle, text, rules, text_id(nudge)),
                typed,
                lambda _: typed(False),
            )
        )

    def _next_nudge(self, session: Session) -> Nudge | None:
        """Return the oldest queued text; drop those that are out of date."""
        store = self.live.store
        for nudge in store.nudges(session.id):
            kind, ids = subject_of(nudge)
            mail = (store.mail(int(id)) for id in ids) if kind == "mail" else ()
            outdated = kind == "work" and session.work not in ids
            if outdated or (kind == "mail" and not any(m and m.read is None for m in mail)):
                store.drop_nudge(nudge.id)
            else:
                return nudge
        return None

    def _typed(self, id: str, generation: int, nudge: Nudge, sent: bool) -> None:
        live = self.live
        self._at_work.discard(id)
        self._seen.pop(id, None)
        if not sent:
            live.store.set_typing(nudge.id, None)
            self.look_at(id, _QUEUED if nudge.id in self._unsent else _RETRY)
            self._unsent.add(nudge.id)
            return
        self._unsent.discard(nudge.id)
        live.store.mark_nudges([nudge.id], live.now)
        found = self._session(id, generation)
        kind, ids = subject_of(nudge)
        if found is not None and kind == "mail":
            live.mark_mail(found[0], list(map(int, ids)))
        if found is not None and kind == REFLECTION:
            from gascity.control.reflection import record_reflection

            record_reflection(live, found[0], nudge.about, "typed")
        self.look_at(id, _SECOND_LOOK)
