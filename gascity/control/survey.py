"""What is to be known of one agent before anything is decided about its sessions."""

from gascity.control.crew import Crew
from gascity.control.dependence import Dependence
from gascity.control.desk import Desk, Post
from gascity.control.drifts import Drifts
from gascity.control.slinging import cap_code, over_budget
from gascity.control.world import Blocked, Demand, Facts, Pool, Room
from gascity.model.work import LIVE, MANUAL, OPEN, POOL, STARTING, Session, Work

_MANY = 64  # items that are looked at for a pool without a limit


class Survey:
    """Looks at agents; remembers only who has items of their own."""

    def __init__(self, crew: Crew, desk: Desk, drifts: Drifts) -> None:
        self.crew = crew
        self.desk = desk
        self.drifts = drifts
        self.dependence = Dependence(crew)
        self.unread: dict[str, int] = {}
        self._reserved: dict[str, set[str]] = {}  # by agent: sessions with items of their own

    def reserve(self, agent: str, session: str) -> None:
        """An item is for one session alone."""
        self._reserved.setdefault(agent, set()).add(session)

    def pool(self, agent: str) -> Pool:
        """The agent's pool as it stands now, with what is in its way."""
        post = self.desk.post(agent)
        if post is None:
            gone = Blocked("gone", f"there is no agent `{agent}` any more")
            return Pool(agent, maximum=0, blocked=(gone,))
        blocked = self.desk.obstacles(post)
        if agent in self.crew.obstructed:
            blocked = (*blocked, self.crew.obstructed[agent])
        return post.pool._replace(
            blocked=blocked,
            wake_on_mail=post.pool.wake_on_mail and not post.script,
            awaits=self.dependence.awaited(post),
            needed=self.dependence.needed(agent),
        )

    def wanting(self, pool: Pool, post: Post) -> Pool:
        """The same for an agent that has something to start: what only then is asked for."""
        over = over_budget(self.desk, self.crew.store, post, self.crew.now)
        return pool._replace(blocked=(*pool.blocked, *over)) if over else pool

    def room(self, post: Post) -> Room:
        """How much the caps above the agent's own leave."""
        roster = self.crew.roster
        caps = list(self.desk.caps(post))
        return Room(
            tuple(
                (limit - roster.live[what], Blocked(cap_code(what), f"{called}: all are in use"))
                for what, limit, called in caps
            ),
            tuple(roster.leaving[what] for what, _, _ in caps),
        )

    def taken(self, post: Post) -> frozenset[str]:
        """Aliases the agent might give that sessions of others go by."""
        roster, agent = self.crew.roster, str(post.agent.name)
        own = (*post.pool.names, *(one.alias for one in post.pool.named))
        found = (
            (name, roster.called(name)) for name in (*own, *roster.alike(post.agent.name.bare))
        )
        return frozenset(name for name, other in found if other and other.agent != agent)

    def items(self, agent: str, post: Post | None) -> list[Work]:
        """The next items of its queue, one more than it can have sessions."""
        most = post.pool.maximum if post is not None else 0
        limit = min(_MANY if most is None else most + 1, _MANY)
        return self.crew.store.claimable(agent, self.crew.now, limit)

    def demand(self, agent: str, items: list[Work]) -> Demand:
        store, now = self.crew.store, self.crew.now
        reserved = []
        for session in sorted(self._reserved.get(agent, ())):
            own = store.reserved(agent, now, session)
            if own is not None:
                reserved.append((session, own.id))
            elif not store.list_work(session=session, status=(OPEN,), limit=1):
                self._reserved[agent].discard(session)
        sessions = self.crew.roster.of(agent) if self.unread else []
        letters = (s.id for s in sessions if s.id in self.unread or s.alias in self.unread)
        return Demand(
            items=tuple(one.id for one in items),
            reserved=tuple(reserved),
            mail=self.unread.get(agent, 0),
            letters=frozenset(letters),
            next_due=store.next_due(agent, now),
        )

    def facts(self, agent: str) -> list[Facts]:
        """Its sessions that have a say, and those that something waits for."""
        crew = self.crew
        sessions = {one.id: one for one in crew.roster.of(agent)}
        for id in self._reserved.get(agent, ()):
            if id not in sessions and (other := crew.store.session(id)) is not None:
                sessions[id] = other
        return [Facts(self._seen(one), *self.drifts.of(one)) for one in sessions.values()]

    def _seen(self, session: Session) -> Session:
        """A session as it is just now."""
        crew, going = self.crew, self.crew.going.get(session.id)
        if session.interactive and going is not None:
            looks = going.runtime.attached(going.handle)
            if looks is not None and looks != session.attached:
                session = crew.store.set_session(session.id, {"attached": looks}, crew.now)
                crew.roster.put(session)
        if session.asked == "start" and session.state not in LIVE:
            session = crew.renamed(session)
            if session.interactive and session.origin == POOL:
                session = crew.change(session, origin=MANUAL)  # it is for whoever had it started
            session = session._replace(state=STARTING, asked="", run=0, origin=MANUAL)
        return session
