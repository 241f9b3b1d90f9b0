"""A worktree for the next work: made, used again on a new branch, or kept for what is in it."""

import os
from collections.abc import Iterator
from itertools import count

from gascity.apply import worktree
from gascity.apply.ledger import Ledger
from gascity.apply.recover import recover
from gascity.apply.tree_state import reusable, standing, start_of, state, unfinished
from gascity.apply.worktree_record import is_whole
from gascity.git import GitFault, base_of
from gascity.materialise.carry_out import rig_lock
from gascity.materialise.directories import Planner, ours_in
from gascity.model.city import Agent
from gascity.model.records import NamedTuple
from gascity.sites import PREPARED, Location, Site

_LOOKED = 3  # so many of a slot's worktrees may have become clean since; more are not asked


class Seat(NamedTuple):
    """A session that needs a place to work."""

    session: str
    alias: str
    slot: int
    work: str = ""  # the item: its branch is `city/<agent without rig>/<work>`
    workdir: str = ""  # where the session worked last, if it did
    branch: str = ""  # the branch it had there
    resume: bool = False  # stay on that branch
    taken: frozenset[str] = frozenset()  # where other live sessions work


class Stood(NamedTuple):
    """A worktree that is ready for files: its site, and the commit its branch started from."""

    site: Site
    branch: str
    base: str
    notes: tuple[str, ...] = ()


def branch_part(seat: Seat) -> str:
    """The last part of a session's branch: its work, else its own name, fit for git."""
    text = seat.work or seat.alias
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "-" for one in text)
    return kept.strip("-") or PREPARED


def stand(planner: Planner, agent: Agent, seat: Seat) -> Stood:
    """Have a worktree on the right branch, and nobody else in it. A GitFault if git will not.

    One with something unfinished in it is left as it is, and the next is taken.
    """
    notes: list[str] = []
    if not (seat.branch and seat.workdir):
        seat = seat._replace(resume=False)  # there is nothing to go on with
    for site, same in _candidates(planner, agent, seat):
        root = os.path.realpath(site.workdir)
        if root in seat.taken or site.workdir in seat.taken:
            continue
        with planner.ledgers.locked(root):
            recover(planner.shop, root)
            found = _Worktree(planner, site, root, notes).taken_by(seat, same)
        if found is not None:
            return found._replace(notes=tuple(notes))
    raise AssertionError("there is always a next number")


def _candidates(planner: Planner, agent: Agent, seat: Seat) -> Iterator[tuple[Site, bool]]:
    """Where the session may work, best first; and whether it was there already."""
    sites = planner.sites
    first, second = (sites.of_session(agent, seat.alias, seat.slot, spare) for spare in (1, 2))
    # Is it the slot's own, or one that was made because that had to be kept?
    spares = second.workdir.removesuffix("2")
    at_home = seat.workdir == first.workdir or seat.workdir.startswith(spares)
    if seat.workdir and (seat.resume or at_home):
        place = Location(seat.workdir, first.kind, first.rig, first.problems)
        yield sites.at(agent, place, seat.alias), seat.resume
    for spare in count(1):
        site = sites.of_session(agent, seat.alias, seat.slot, spare)
        if site.workdir != seat.workdir and not (spare > _LOOKED and os.path.lexists(site.workdir)):
            yield site, False


class _Worktree:
    """One candidate; whoever asks holds the lock of its directory."""

    def __init__(self, planner: Planner, site: Site, root: str, notes: list[str]) -> None:
        self.planner = planner
        self.environ = planner.environ
        self.site = site
        self.root = root
        self.notes = notes
        self.lock = rig_lock(planner.city.root, site.rig)

    def taken_by(self, seat: Seat, same: bool) -> Stood | None:
        """Stand where the session is to work; None: not here."""
        wanted = self.site.branch_for(branch_part(seat))
        named = base_of(
            self.site.rig, self.planner.sites.default_branch(self.site.agent), self.environ
        )
        base = named.commit if named else ""
        if not is_whole(self.root):
            return self._made(seat.branch if seat.resume else wanted, base, seat.resume)
        if seat.resume:
            return self._resumed(seat, base) if same else None
        return self._switched(wanted, base)

    def _made(self, branch: str, base: str, again: bool) -> Stood:
        ledgers = self.planner.ledgers
        known = ledgers.read(self.root)
        ledgers.write(self._announced(known, branch))
        os.makedirs(os.path.dirname(self.root), exist_ok=True)
        start, lock = base or None, self.lock
        try:
            done = worktree.prepare(
                self.site.rig, self.root, branch, start, self.environ, lock=lock, again=again
            )
        except GitFault:
            ledgers.write(known)
            raise
        self._note(done.note)
        return self._stood(done.branch, base, going_on=True)

    def _announced(self, known: Ledger, branch: str) -> Ledger:
        """The books with whose it will be, so that nobody takes it for nobody's meanwhile."""
        return known._replace(
            rig=self.site.rig,
            branch=branch,
            agents={str(self.site.agent.name): {}, **known.agents},
            session=self.site.session,
            slot=self.site.mark,
        )

    def _resumed(self, seat: Seat, base: str) -> Stood | None:
        now = standing(self.root, self.environ)
        if now != seat.branch:
            self._note(f"{self._shown()} stands on `{now or 'no branch'}` by now")
            return None
        return self._stood(now, base, going_on=True)

    def _switched(self, wanted: str, base: str) -> Stood | None:
        ledger = self.planner.ledgers.read(self.root)
        ours, covered = ours_in(ledger)
        seen = state(self.root, ours, covered, self.environ, base, counted=False)
        if not reusable(seen):
            self._note(f"{self._shown()} is kept as it is: {'; '.join(unfinished(seen))}")
            return None
        if seen.branch == wanted:
            return self._stood(wanted, base, going_on=True)
        self._make_way(ledger, ours, sorted(covered), base)
        try:
            done = worktree.switch(self.root, wanted, base, self.environ, lock=self.lock)
        except GitFault as fault:
            self._note(f"{self._shown()} is kept as it is: {fault.message}")
            return None
        self._note(done.note)
        return self._stood(done.branch, base)

    def _make_way(
        self, ledger: Ledger, ours: frozenset[str], covered: list[str], base: str
    ) -> None:
        """Put tracked files back in place of ours, and take ours from where the base has one.

        The record goes last: whoever was killed before that finds everything as it should be.
        """
        if covered:
            worktree.uncover(self.root, covered, self.environ)
            worktree.restore(self.root, covered, self.environ)
        coming = self.planner.sites.paths_in(self.site.rig, base) & ours & ledger.paths.keys()
        for path in coming:
            os.unlink(f"{self.root}/{path}")
        gone = coming.union(covered)
        if gone:
            kept = {path: held for path, held in ledger.paths.items() if path not in gone}
            told = ledger.told._replace(covered=())
            self.planner.ledgers.write(ledger._replace(paths=kept, told=told))

    def _stood(self, branch: str, base: str, *, going_on: bool = False) -> Stood:
        self.site.standing = branch
        start = start_of(self.root, base, self.environ) if going_on and base else base
        return Stood(self.site, branch, start)

    def _note(self, text: str) -> None:
        if text:
            self.notes.append(text)

    def _shown(self) -> str:
        return self.planner.disk.shown(self.root)
