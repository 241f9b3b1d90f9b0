"""Sessions set to work: claimed for, furnished, started and told."""

import os
from contextlib import suppress
from functools import partial
from uuid import uuid4

from gascity.control.crew import CONTROLLER, Crew, Going
from gascity.control.desk import Desk, Post
from gascity.control.launch import Errand, Launched, make_order, message_text
from gascity.control.world import Blocked, Start, Turn
from gascity.materialise.furnish import Furnished, Seat
from gascity.model.durations import spoken
from gascity.model.problems import CityError, Problem
from gascity.model.work import (
    CLAIMED,
    CRASHED,
    FAILED,
    IDLE,
    NAMED,
    RUNNING,
    STARTING,
    STOPPED,
    Mail,
    Run,
    Session,
    Token,
    Work,
)
from gascity.runtimes.runtime import Handle, Runtime

MAIL = "mail"  # what a run is about that is there for unread messages
_UNFIT = ("message-not-passed", "template-failed")  # no other start of the item would fare better


def mail_of(run: Run) -> list[int]:
    """The messages that a run was told of."""
    word, _, ids = run.about.partition(" ")
    return [int(id) for id in ids.split(",")] if word == MAIL and ids else []


class Starts:
    """Starts sessions of a crew."""

    def __init__(self, crew: Crew, desk: Desk) -> None:
        self.crew = crew
        self.desk = desk

    # What a verdict asks for

    def start(self, action: Start) -> None:
        """Make a session; one that has nothing to do yet just waits in its slot."""
        crew, post = self.crew, self.desk.post(action.agent)
        if post is None:
            return
        terminal = post.pool.interactive or (action.origin == NAMED and post.terminal)
        session = Session(
            id=str(uuid4()),
            agent=action.agent,
            origin=action.origin,
            slot=action.slot,
            alias=action.alias,
            state=STARTING,
            reason=action.reason,
            created=crew.now,
            updated=crew.now,
            interactive=terminal,
            runtime="tmux" if terminal else post.runtime,
        )
        session = crew.store.add_session(session, CONTROLLER)
        crew.roster.put(session)
        crew.decided(session.id, "start", action.reason)
        if terminal or action.work or action.about:
            self.begin(post, session, action.work, action.reason, action.about)
        else:
            crew.change(session, state=IDLE, idle_since=crew.now)

    def turn(self, session: Session, action: Turn) -> None:
        """Have a session that is there do something."""
        crew, post = self.crew, self.desk.post(session.agent)
        if post is None or session.id in crew.preparing:
            return
        if action.alias:
            session = crew.change(session, slot=action.slot, alias=action.alias)
        if session.id in crew.going:
            if session.interactive and action.work:
                self._hand_over(post, session, action.work)
            elif session.interactive and action.about == MAIL:
                self._tell_mail(post, session)
        elif session.interactive or action.work or action.about:
            self.begin(post, session, action.work, action.reason, action.about)
        else:
            self._rest(session, action.reason)

    def _rest(self, session: Session, reason: str) -> None:
        """Have a session wait in its slot."""
        self.crew.change(
            session,
            state=IDLE,
            reason=reason,
            idle_since=self.crew.now,
            work="",
            asked="",
            pending="",
            retry_at=None,
        )

    def _hand_over(self, post: Post, session: Session, item: str) -> None:
        """Give an item to a session that sits in its terminal: typed there when it is ready."""
        crew = self.crew
        work = self._claim(session, item)
        if work is None:
            return
        text = message_text(post, work, (), ())
        crew.store.add_nudge(session.id, text, crew.now, CONTROLLER)
        crew.typing.add(session.id)
        self._put_down(work, session, crew.going[session.id].run.log, work.base)
        crew.change(session, "session.started", state=RUNNING, work=work.id, idle_since=None)

    def _tell_mail(self, post: Post, session: Session) -> None:
        """Have unread messages typed into a terminal that nobody is working in."""
        crew, mail = self.crew, self._mail(session)
        if mail:
            text = message_text(post, None, mail, ())
            crew.store.add_nudge(session.id, text, crew.now, CONTROLLER)
            crew.mark_mail(session, [one.id for one in mail])
            crew.typing.add(session.id)

    # Starting

    def begin(self, post: Post, session: Session, item: str, reason: str, about: str = "") -> None:
        """Have a session run: take its item, have its directory furnished, then start it."""
        crew = self.crew
        mail = self._mail(session) if about == MAIL else []
        if about == MAIL and not mail and not item:
            self._rest(session, "its mail was read meanwhile")
            return
        wanted = crew.store.work(item) if item else None
        resume = bool(session.conversation) and (
            session.interactive or post.resumes or (wanted is not None and wanted.reserved)
        )
        session = crew.change(
            session,
            state=STARTING,
            reason=reason,
            generation=session.generation + 1,
            conversation=session.conversation if resume else str(uuid4()),
            run=0,
            pid=0,
            asked="",
            pending="",
            retry_at=None,
            drain_by=None,
            idle_since=None,
        )
        work = self._claim(session, item) if item else None
        if item and work is None:
            self._rest(session, "its item was taken")
            return
        if work is not None:
            session = crew.change(session, work=work.id)
            crew.decided(work.id, "start", f"{session.alias} takes it")
        nudges = [] if session.interactive else crew.store.nudges(session.id)
        if nudges:
            crew.store.mark_nudges([one.id for one in nudges], crew.now)
        told = f"{MAIL} {','.join(str(one.id) for one in mail)}" if mail else about
        by = crew.steady + crew.patience
        errand = Errand(session, work, message_text(post, work, mail, nudges), resume, told, by)
        crew.preparing[session.id] = errand
        self._furnish(post, errand)

    def _claim(self, session: Session, item: str) -> Work | None:
        token = Token(session.id, session.generation)
        return self.crew.store.claim(token, self.crew.now, work=item)

    def _mail(self, session: Session) -> list[Mail]:
        store = self.crew.store
        names = [name for name in (session.agent, session.id, session.alias) if name]
        found = store.inbox(names, unread=True)
        senders = {one.sender: store.session(one.sender) for one in found}
        return [
            one._replace(sender=sender.alias) if (sender := senders[one.sender]) else one
            for one in found
        ]

    def _furnish(self, post: Post, errand: Errand) -> None:
        """Have the directory ready; at once where nothing has changed since the last time."""
        crew, session = self.crew, errand.session
        others = (one for one in crew.roster.of(session.agent) if one.id != session.id)
        seat = Seat(
            session=session.id,
            alias=session.alias,
            slot=session.slot,
            work=errand.work.id if errand.work else "",
            workdir=session.workdir,
            branch=session.branch,
            resume=errand.resume,
            taken=frozenset(one.workdir for one in others if one.workdir),
        )
        before = crew.furnished.get(session.id)
        if before is not None and post.furnisher.is_current(post.agent, before, seat):
            self._furnished(post, session, before)
            return
        crew.workers.put(
            partial(post.furnisher.furnish, post.agent, seat),
            partial(self._furnished, post, session),
        )

    def _furnished(self, post: Post, session: Session, done: object) -> None:
        """Go on with a start whose directory is ready, unless it was called off meanwhile."""
        crew = self.crew
        errand = crew.preparing.get(session.id)
        if errand is None or errand.session.generation != session.generation:
            return
        del crew.preparing[session.id]
        if errand.work is not None and not self._still_has(session, errand.work.id):
            self._rest(session, f"{errand.work.id} was settled meanwhile")
        elif not isinstance(done, Furnished):
            self.start_failed(errand, _blocked_by(done))
        elif wrong := [problem for problem in done.problems if problem.is_error]:
            self.start_failed(errand, Blocked(wrong[0].code, wrong[0].message))
        else:
            for note in done.notes:
                crew.decided(session.id, "note", note)
            crew.furnished[session.id] = done
            self._launch(post, errand, done)

    def _still_has(self, session: Session, item: str) -> bool:
        work = self.crew.store.work(item)
        if work is None or work.status != CLAIMED:
            return False
        return (work.session, work.generation) == (session.id, session.generation)

    def _launch(self, post: Post, errand: Errand, furnished: Furnished) -> None:
        crew, session, work = self.crew, errand.session, errand.work
        launched: Launched | None = None
        try:
            runtime = crew.runtimes[session.runtime]
            if missing := runtime.missing():
                raise CityError(Problem("missing-runtime", f"{session.runtime} needs {missing}"))
            launched = make_order(crew.root, post, errand, furnished, crew.environ)
            handle = runtime.spawn(launched.order)
        except (OSError, CityError, KeyError) as error:
            for path in launched.files if launched else ():
                with suppress(OSError):
                    os.unlink(path)
            self.start_failed(errand, _blocked_by(error))
            return
        run = self._on_record(errand, launched, runtime, handle)
        crew.obstructed.pop(session.agent, None)
        if session.interactive:
            self._greet(post, session)
        if work is not None:
            placed = session._replace(workdir=furnished.workdir, branch=furnished.branch)
            self._put_down(work, placed, run.log, furnished.base or work.base)
        waits = session.interactive and work is None
        crew.change(
            session,
            "session.started",
            state=IDLE if waits else RUNNING,
            reason=f"works on {work.id}" if work else "",
            run=run.id,
            pid=handle.pid,
            conversation=launched.conversation,
            workdir=furnished.workdir,
            branch=furnished.branch,
            prints=furnished.prints,
            started=crew.now,
            idle_since=crew.now if waits else None,
        )

    def _on_record(
        self, errand: Errand, launched: Launched, runtime: Runtime, handle: Handle
    ) -> Run:
        """Put a run that is held on record; it is let go once that is committed."""
        crew, session, order = self.crew, errand.session, launched.order
        run = Run(
            id=0,
            session=session.id,
            generation=session.generation,
            work=errand.work.id if errand.work else "",
            runtime=session.runtime,
            started=crew.now,
            log=order.log,
            exit_file=order.exit_file,
            pid=handle.pid,
            ticks=handle.ticks,
            boot=handle.boot,
            handle=handle.name,
            about=errand.about,
        )
        going = Going(run, runtime, handle, launched.files)
        crew.held.append((session.id, going))  # first: it must not be lost if this fails
        going = going._replace(run=crew.store.add_run(run))
        crew.held[-1] = (session.id, going)
        crew.going[session.id] = going
        return going.run

    def _greet(self, post: Post, session: Session) -> None:
        """Have what waits for a terminal typed into it, and what its agent is always told."""
        crew, greeting = self.crew, post.agent.text("nudge")
        if greeting:
            crew.store.add_nudge(session.id, greeting, crew.now, CONTROLLER)
        if greeting or crew.store.nudges(session.id):
            crew.typing.add(session.id)

    def _put_down(self, work: Work, session: Session, log: str, base: str) -> None:
        """Note with an item where it is worked on."""
        where = {
            "log": log,
            "workdir": session.workdir,
            "branch": session.branch,
            "base": base,
            "reason": f"{session.alias} works on it",
        }
        self.crew.store.note_work(work.id, where, self.crew.now)

    # Starts that fail

    def next_at(self) -> float | None:
        """When the patience with a directory that is not ready ends."""
        return min((errand.by for errand in self.crew.preparing.values()), default=None)

    def give_up(self) -> None:
        """Have done with starts whose directories do not get ready."""
        crew = self.crew
        for id, errand in list(crew.preparing.items()):
            if errand.by <= crew.steady:
                del crew.preparing[id]
                words = f"its directory was not ready within {spoken(crew.patience)}"
                self.start_failed(errand, Blocked("start-timeout", words))

    def start_failed(self, errand: Errand, why: Blocked) -> None:
        """Nothing ran: the item is free again, and the agent waits until something changes.

        An item that is itself what cannot be started fails, so that others get their turn.
        """
        crew, session = self.crew, errand.session
        if errand.work is not None and why.code in _UNFIT:
            token = Token(session.id, session.generation)
            crew.store.finish(
                errand.work.id,
                FAILED,
                None,
                crew.now,
                token=token,
                reason=why.message,
                actor=CONTROLLER,
            )
            crew.decided(errand.work.id, FAILED, why.message)
        else:
            crew.obstructed[session.agent] = why
            crew.decided(session.agent, "wait", why.message)
            if errand.work is not None:
                crew.give_back(session, errand.work.id, why.message)
        state = CRASHED if session.interactive else STOPPED
        crew.change(session, "session.stopped", state=state, reason=why.message, work="")


def _blocked_by(error: object) -> Blocked:
    if isinstance(error, CityError):
        return Blocked(error.problems[0].code, error.problems[0].message)
    if isinstance(error, OSError):
        return Blocked("refused", f"{error.filename or 'start'}: {error.strerror}")
    if isinstance(error, KeyError):
        return Blocked("unknown-runtime", f"there is no runtime {error}")
    return Blocked("start-failed", f"{type(error).__name__}: {error}")
