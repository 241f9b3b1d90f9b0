"""Who takes what waits: sessions that are there, then new ones, as far as the caps allow."""

from collections.abc import Iterator

from gascity.control.sheet import Sheet
from gascity.control.standing import asleep, busy, fresh, leaving, live, span, waits_until
from gascity.control.world import Blocked, Pool
from gascity.model.work import (
    CRASHED,
    DRAINING,
    IDLE,
    MANUAL,
    NAMED,
    RATE_LIMITED,
    STOPPED,
    Session,
)


def minimum(pool: Pool) -> int:
    return max(pool.minimum, 1 if pool.needed > 0 else 0)


def _hold(sheet: Sheet) -> Blocked | None:
    """What keeps the whole agent back: its account's limit, or that it crashes all the time."""
    waiting = [s for s in sheet.backing_off() if s.state != CRASHED]
    if not waiting:
        return None
    last = max(waiting, key=lambda s: s.retry_at or 0.0)
    left = span((last.retry_at or 0.0) - sheet.now)
    if last.state == RATE_LIMITED:
        return Blocked("rate-limited", f"rate-limited for {left}")
    return Blocked("crash-loop", f"crashes again and again, waits {left}")


def open_up(sheet: Sheet) -> None:
    """Give out everything that can be, in the order of urgency."""
    held = _hold(sheet)
    if held:
        sheet.blocked.append(held)
    else:
        _give_out(sheet)
        _wake_for_mail(sheet)
    for session in filter(fresh, sheet.undecided()):  # whatever the caps say
        sheet.turn(session, "", "somebody asked for it")
    if not held:
        _keep_always(sheet)
        _fill(sheet)


def _give_out(sheet: Sheet) -> None:
    _give_reserved(sheet)
    for session in sheet.idle():
        if sheet.items and not session.attached and not busy(session, sheet.now):
            _give(sheet, session, sheet.items.pop(0))
    if sheet.pool.awaits:
        names = ", ".join(sheet.pool.awaits)
        sheet.blocked.append(Blocked("depends-on", f"waits for {names} to be awake"))
    while sheet.items and _may_open(sheet):
        work = sheet.items.pop(0)
        _open(sheet, work, f"for {work}")


def _give_reserved(sheet: Sheet) -> None:
    for id, work in sheet.demand.reserved:
        session = sheet.sessions.get(id)
        if session is None or id in sheet.done or waits_until(session, sheet.now):
            continue
        ready = session in sheet.idle() and not busy(session, sheet.now)
        back = not live(session) and _may_open(sheet) and sheet.may_return(session)
        if ready or back:
            _give(sheet, session, work)


def crowded_out(sheet: Sheet) -> int:
    """How many sessions cannot come back to an item of theirs because others fill the caps."""
    if sheet.blocked or sheet.capacity() > 0:
        return 0
    found = (sheet.sessions.get(id) for id, _ in sheet.demand.reserved)
    waiting = [s for s in found if s and not live(s) and not waits_until(s, sheet.now)]
    return max(0, len(waiting) - sum(map(leaving, sheet.sessions.values())))


def _give(sheet: Sheet, session: Session, work: str) -> None:
    sheet.turn(session, work, f"it takes {work}")


def _may_open(sheet: Sheet) -> bool:
    """Asked only where there is something to open for."""
    if sheet.pool.awaits or sheet.capacity() > 0:
        return not sheet.pool.awaits
    sheet.cramped = sheet.cramped or sheet.own_capacity() > 0
    return False


def _returning(sheet: Sheet) -> Iterator[Session]:
    """Sessions that are not live and that demand may have back, named ones first."""
    for named in sheet.pool.named:
        there = [s for s in sheet.undecided() if s.origin == NAMED and s.alias == named.alias]
        stopped = [s for s in there if s.state == STOPPED]
        if stopped and len(stopped) == len(there):
            yield max(stopped, key=lambda s: s.updated)
    yield from (s for s in sheet.rested() if s.origin != MANUAL)


def _return(sheet: Sheet) -> Session | None:
    ready = (s for s in _returning(sheet) if waits_until(s, sheet.now) is None)
    return next((s for s in ready if sheet.may_return(s)), None)


def _open(sheet: Sheet, work: str, reason: str, about: str = "") -> None:
    session = _return(sheet)
    if session:
        sheet.turn(session, work, reason, about)
    else:
        sheet.start(work, reason, about, named=next(sheet.missing_names(), ""))


def _wake_for_mail(sheet: Sheet) -> None:
    if not sheet.pool.wake_on_mail:
        return
    ready = [s for s in sheet.idle() if not busy(s, sheet.now) and not s.attached]
    for session in ready:
        if session.id in sheet.demand.letters:
            sheet.turn(session, "", "it has mail", "mail")
    if not sheet.demand.mail or sheet.active():
        return
    idle = next((s for s in ready if s.id not in sheet.done), None)
    if idle:
        sheet.turn(idle, "", "it has mail", "mail")
    elif _may_open(sheet):
        _open(sheet, "", "there is mail", "mail")


def _keep_always(sheet: Sheet) -> None:
    always = {named.alias for named in sheet.pool.named if named.always}
    for session in list(_returning(sheet)):
        if session.alias in always and _may_open(sheet) and _due(sheet, session):
            sheet.turn(session, "", "it is to be there always")
    for alias in list(sheet.missing_names()):
        if alias in always and _may_open(sheet):
            sheet.start("", "it is to be there always", named=alias)


def _due(sheet: Sheet, session: Session) -> bool:
    waits = asleep(session) or waits_until(session, sheet.now) is not None
    return not waits and sheet.may_return(session)


def _fill(sheet: Sheet) -> None:
    """Have as many as there are to be at least, whether there is work or not."""
    wanted = minimum(sheet.pool)
    rested = [s for s in sheet.rested() if sheet.is_pooled(s)]
    for session in rested[: max(0, wanted - sheet.pooled() + len(rested))]:
        if _may_open(sheet) and sheet.may_return(session):
            sheet.turn(session, "", "its back-off is over")
    while sheet.pooled() < wanted and _may_open(sheet):
        sheet.start("", _why_minimum(sheet.pool))


def _why_minimum(pool: Pool) -> str:
    if pool.minimum == 0:
        return "another agent depends on it"
    return f"there are to be {pool.minimum} at least"


def explain(sheet: Sheet) -> tuple[Blocked, ...]:
    """Why what is left over waits; nothing is in the way of nothing."""
    given = {(s.id, s.work) for s in sheet.sessions.values()}
    left = [entry for entry in sheet.demand.reserved if entry not in given]
    if not (sheet.items or left or (sheet.demand.mail and not sheet.active())):
        return ()
    if sheet.pool.blocked:
        return sheet.pool.blocked
    return tuple(sheet.blocked) or (_cap(sheet) if sheet.items or crowded_out(sheet) else ())


def _cap(sheet: Sheet) -> tuple[Blocked, ...]:
    most = sheet.pool.maximum
    backing = len(sheet.backing_off())
    if most is not None and sheet.live() >= most:
        return (Blocked("agent-cap", f"{sheet.bare()} has {sheet.live()} of {most} sessions"),)
    if most is not None and backing and sheet.live() + backing >= most:
        first = min(s.retry_at or 0.0 for s in sheet.backing_off())
        left = span(first - sheet.now)
        return (Blocked("backing-off", f"{sheet.bare()} crashed and starts again in {left}"),)
    narrowest = sheet.room.narrowest() or _spent(sheet)
    return (narrowest,) if narrowest else ()


def _spent(sheet: Sheet) -> Blocked | None:
    """The cap that what was just opened has used up."""
    return min(sheet.room.caps, key=lambda cap: cap[0])[1] if sheet.room.caps else None


def summary(sheet: Sheet, explained: tuple[Blocked, ...]) -> str:
    """One line for a person."""
    if sheet.pool.blocked:
        return sheet.pool.blocked[0].message
    states = [s.state for s in sheet.sessions.values()]
    counts = [
        (sheet.live() - states.count(IDLE) - states.count(DRAINING), "running"),
        (states.count(DRAINING), "draining"),
    ]
    parts = [f"{number} {word}" for number, word in counts if number]
    most = sheet.pool.maximum
    if sheet.items:  # only as many were looked at as there can be sessions
        more = most is not None and len(sheet.items) > most
        parts.append("more waiting" if more else f"{len(sheet.items)} waiting")
    text = ", ".join(parts)
    why = "; ".join(b.message for b in explained or tuple(sheet.blocked))
    return ": ".join(part for part in (text, why) if part) or "idle"
