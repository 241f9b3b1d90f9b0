"""Plans for working directories: which there are, who works there, what is to be done."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gascity.apply.directory import Directory
from gascity.apply.ledger import Ledger, Ledgers
from gascity.materialise.claims import Claims, Materials, gather
from gascity.materialise.tracked import changed, original
from gascity.model.city import Agent, City
from gascity.model.plan import ABSENT, FILE, KEEP, REMOVE, WORKTREE, Found, Held, Step, Wanted
from gascity.model.problems import Problem
from gascity.plan.ground import Choices, Ground, Outcome
from gascity.plan.steps import decide
from gascity.providers.registry import provider_files
from gascity.render.variables import Scene
from gascity.sites import PLACE, Site, Sites, nested
from gascity.sites import WORKTREE as AS_WORKTREE

if TYPE_CHECKING:
    from gascity.apply.perform import Workshop

_RACY = 20_000_000  # nanoseconds: a file system's clock is no finer than this


class Planned:
    """What is to be done in one directory."""

    def __init__(
        self, root: str, sites: Sequence[Site], ledger: Ledger, claims: Claims, outcome: Outcome
    ) -> None:
        self.root = root
        self.sites = tuple(sites)
        self.ledger = ledger
        self.claims = claims
        self.outcome = outcome
        self.read: Callable[[str], bytes] = Directory(root).read
        self.worktree: Step | None = None
        self.removal: Step | None = None  # of a worktree that nobody works in any more

    @property
    def steps(self) -> list[Step]:
        first = [self.worktree] if self.worktree else []
        last = [self.removal] if self.removal else []
        return [*first, *sorted(self.outcome.steps, key=lambda step: step.path), *last]

    def claimants(self, step: Step) -> tuple[str, ...]:
        """Whose step it is; what nobody wants any more belongs to those who wanted it."""
        if step.op == WORKTREE:
            return tuple(str(site.agent.name) for site in self.sites)
        if step is self.removal:
            return tuple(sorted(self.ledger.agents)) or (_once(self.root),)
        wanted = self.claims.wanted.get(step.path)
        held = self.ledger.paths.get(step.path)
        return wanted.agents if wanted else held.agents if held else (_once(self.root),)


def _once(root: str) -> str:
    """Whose directory it was, by its name, where no book says so."""
    for place in ("/.gc/worktrees/", "/.gc/work/"):
        if place in root:
            return root.partition(place)[2]
    return os.path.basename(root)


class Planner:
    """Plans of one city; catalogues are read once, directories looked at one by one."""

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.city: City = materials.prompts.city
        self.disk = materials.prompts.disk
        self.environ = materials.environ
        self.sites = Sites(self.city, self.disk, self.environ)
        self.ledgers = Ledgers(self.city.root)
        self._known = frozenset((*provider_files()[0], *self.city.providers))
        self._contents: dict[str, bytes] = {}
        self._broken = frozenset(str(one.name) for one in self.city.agents if one.broken)

    @cached_property
    def shop(self) -> "Workshop":
        """All the city's books, for who writes; a plan needs the ledgers only."""
        from gascity.apply.journal import Journal
        from gascity.apply.perform import Workshop

        return Workshop(self.ledgers, Journal(self.city.root))

    def forget(self, sites: Sequence[Site]) -> None:
        """Ask git anew about directories that were just made."""
        for site in sites:
            site.look_again()

    def forget_contents(self) -> None:
        """Let go of what files hold; it is read again when it is needed."""
        self._contents.clear()

    def directories(self, agents: Iterable[Agent]) -> dict[str, list[Site]]:
        """Agents by the directory they work in; real paths, so that a link is no second one."""
        sites = [self.sites.of(agent) for agent in agents]
        for site, problem in nested(sites):
            if problem not in site.problems:
                site.problems = (*site.problems, problem)
        found: dict[str, list[Site]] = {}
        for site in sites:
            root = os.path.realpath(site.workdir) if site.workdir else ""
            found.setdefault(root, []).append(site)
        return found

    def claims(self, root: str, sites: Sequence[Site]) -> Claims:
        """What everybody who works in one directory wants in it."""
        ledger = self.ledgers.read(root)
        with Directory(root) as directory:
            return self._claims(root, sites, ledger, directory, self._scenes(sites, ledger))

    def plan(
        self,
        root: str,
        sites: Sequence[Site],
        choices: Choices,
        whose: frozenset[str] | None = None,
    ) -> Planned:
        """What to do in one directory. With `whose`, only what concerns these agents.

        Where git fails nothing is done, and that is the fault of those who work there.
        """
        try:
            return self._plan(root, sites, choices, whose)
        except Exception as error:
            from gascity.git import GitFault

            if not isinstance(error, GitFault) or not sites:
                raise
            fault = Problem("git-failed", error.message, self.sites.branch_place(sites[0].agent))
        ledger = self.ledgers.read(root)
        claims = gather(self.materials, sites, lambda _: False, ask_git=False)
        for site in sites:
            claims.hold(str(site.agent.name), [fault])
        return Planned(root, sites, ledger, claims, Outcome(ledger.paths))

    def _plan(
        self,
        root: str,
        sites: Sequence[Site],
        choices: Choices,
        whose: frozenset[str] | None,
    ) -> Planned:
        ledger = self.ledgers.read(root)
        with Directory(root) as directory:
            scenes = self._scenes(sites, ledger)
            claims = self._claims(root, sites, ledger, directory, scenes)
            wanted = self._sound(claims)
            ground = self._ground(root, sites, ledger, directory, wanted)
            # What an agent got before it broke stays as it is until it is mended.
            stuck = claims.stuck | self._broken
            held = {
                path: record
                for path, record in ledger.paths.items()
                if stuck.isdisjoint(record.agents)
            }
            unwilling = _no_longer_covering(held, wanted, sites)
            free = {
                path: one
                for path, one in wanted.items()
                if (path in held or path not in ledger.paths) and path not in unwilling
            }
            outcome = decide(free, held, ground, choices, whose)
            for path, record in ledger.paths.items():
                if path not in held:
                    outcome.records[path] = record
        planned = Planned(root, sites, ledger, claims, outcome)
        planned.read = ground.read
        planned.worktree = self._worktree(root, sites, claims.stuck)
        if ledger.rig and not sites and self._broken.isdisjoint(ledger.claimants):
            planned.removal = self._removal(root, ledger)
        return planned

    def unreadable(self, root: str, sites: Sequence[Site]) -> Planned:
        """No plan: the directory could not be looked at."""
        return Planned(root, sites, Ledger(root), Claims(), Outcome({}))

    def _scenes(self, sites: Sequence[Site], ledger: Ledger) -> dict[str, Scene]:
        """The values that files are filled in with, where one session has the directory."""
        if len(sites) > 1:
            return {}
        return {
            str(site.agent.name): self.scene(site, site.session or ledger.session, ledger.branch)
            for site in sites
            if site.session or ledger.session
        }

    def scene(self, site: Site, alias: str, branch: str) -> Scene:
        """What a session that works there knows of itself."""
        first, _ = self.materials.prompts.scene(site.agent)
        branch = (site.standing or branch) if site.kind == AS_WORKTREE else ""
        return first._replace(work_dir=site.workdir, branch=branch, session=alias)

    def _claims(
        self,
        root: str,
        sites: Sequence[Site],
        ledger: Ledger,
        directory: Directory,
        scenes: Mapping[str, Scene],
    ) -> Claims:
        def foreign(path: str) -> bool:
            if path in ledger.paths:
                return False
            if directory.found(path).kind != ABSENT:
                return True
            to_come = sites[0].kind == AS_WORKTREE and not os.path.isdir(root)
            return to_come and path in sites[0].tracked

        claims = gather(self.materials, sites, foreign, scenes)
        for site in sites:
            slots = self.materials.overlays.unknown_slots(site.agent, self._known)
            claims.note(str(site.agent.name), slots)
        return claims

    @staticmethod
    def _sound(claims: Claims) -> dict[str, Wanted]:
        """Wishes of agents with nothing wrong; half a directory is worse than none."""
        if not claims.stuck:
            return claims.wanted
        found = {}
        for path, one in claims.wanted.items():
            agents = tuple(name for name in one.agents if name not in claims.stuck)
            if agents:
                found[path] = one._replace(agents=agents)
        return found

    def _ground(
        self,
        root: str,
        sites: Sequence[Site],
        ledger: Ledger,
        directory: Directory,
        wanted: Mapping[str, Wanted],
    ) -> Ground:
        inside_git = [site for site in sites if site.kind in (PLACE, AS_WORKTREE)]
        tracked = inside_git[0].tracked if inside_git else frozenset()
        found, read = self._looks(root, inside_git, directory, tracked)
        return Ground(
            found=found,
            is_still=directory.is_still,
            read=read,
            source=self.content,
            original=lambda path: original(root, path, self.environ),
            shown=lambda path: self.disk.shown(f"{root}/{path}"),
            tracked=tracked,
            coverable=self._coverable(root, inside_git, ledger, tracked, wanted),
            theirs=any(site.kind == PLACE for site in inside_git),
            settled=ledger.written - _RACY,
        )

    def _looks(
        self, root: str, sites: Sequence[Site], directory: Directory, tracked: frozenset[str]
    ) -> tuple[Callable[[str], Found], Callable[[str], bytes]]:
        """How to look at the directory; a worktree to come is looked at in its base commit."""
        if not sites or sites[0].kind != AS_WORKTREE or _is_whole(root):
            return directory.found, directory.read
        site = sites[0]

        def read(path: str) -> bytes:
            from gascity import git

            named = f"{self.sites.base(site)}:{path}"
            return git.run(["cat-file", "blob", named], site.rig, self.environ).out

        return lambda path: Found(FILE, 0o644) if path in tracked else directory.found(path), read

    def content(self, one: Wanted) -> bytes:
        """What a file should hold; sources that many agents share are read once."""
        if one.data is not None:
            return one.data
        if one.copy_of not in self._contents:
            with open(one.copy_of, "rb") as file:
                self._contents[one.copy_of] = file.read()
        return self._contents[one.copy_of]

    def _coverable(
        self,
        root: str,
        sites: Sequence[Site],
        ledger: Ledger,
        tracked: frozenset[str],
        wanted: Mapping[str, Wanted],
    ) -> frozenset[str]:
        """Tracked files of a worktree that ours may cover: those that nobody has changed."""
        willing = _willing(sites)
        paths = [
            path
            for path, one in wanted.items()
            if path in tracked and path not in ledger.paths and not willing.isdisjoint(one.agents)
        ]
        if not paths or not os.path.isdir(root):
            return frozenset(paths)
        return frozenset(paths) - changed(root, paths, self.environ)

    def _worktree(self, root: str, sites: Sequence[Site], stuck: set[str]) -> Step | None:
        site = next((site for site in sites if site.kind == AS_WORKTREE), None)
        if site is None or _is_whole(root) or str(site.agent.name) in stuck:
            return None
        rig = site.agent.name.rig or ""
        return Step(WORKTREE, ".", self.disk.shown(site.rig), rig, f"on branch {site.branch}")

    def _removal(self, root: str, ledger: Ledger) -> Step:
        from gascity.apply.tree_state import loss, state

        against = []
        if os.path.isdir(root):
            ours, covered = ours_in(ledger)
            base = rig_base(ledger.rig, self.environ)
            against = loss(state(root, ours, covered, self.environ, base))
        reason = "; ".join(against) or "nobody works here any more"
        return Step(KEEP if against else REMOVE, ".", self.disk.shown(ledger.rig), "", reason)


def _willing(sites: Sequence[Site]) -> frozenset[str]:
    """Agents whose files may cover tracked ones of their worktree."""
    return frozenset(
        str(site.agent.name)
        for site in sites
        if site.kind == AS_WORKTREE and site.agent.value("overlay_tracked") == "cover"
    )


def _no_longer_covering(
    held: Mapping[str, Held], wanted: Mapping[str, Wanted], sites: Sequence[Site]
) -> set[str]:
    """Tracked files that we cover, while those who want ours there let git's be by now."""
    covered = [path for path, record in held.items() if record.covers and path in wanted]
    willing = _willing(sites) if covered else frozenset()
    return {path for path in covered if willing.isdisjoint(wanted[path].agents)}


def _is_whole(root: str) -> bool:
    from gascity.apply.worktree_record import is_whole

    return is_whole(root)


def ours_in(ledger: Ledger) -> tuple[frozenset[str], dict[str, str]]:
    """What of a worktree is as we wrote it, and what we wrote over tracked files, by hash."""
    from gascity.apply.recover import everything_in, stands

    covered = {path: held.sha256 for path, held in ledger.paths.items() if held.covers}
    with Directory(ledger.root) as directory:
        ours = {
            deed.path
            for deed in everything_in(ledger)
            if deed.path not in covered and stands(directory, deed.path, deed.after)
        }
    return frozenset(ours), covered


def rig_base(rig: str, environ: Mapping[str, str]) -> str:
    """A commit of the rig that is safe there, so that what came before it is not lost elsewhere."""
    from gascity import git

    try:
        base = git.base_of(rig, None, environ)
    except git.GitFault:  # the rig is gone, or is no repository any more
        return ""
    return base.commit if base else ""


def differs(steps: Iterable[Step]) -> bool:
    """Is there anything to do?"""
    return any(step.op != KEEP for step in steps)


def problems_of(planned: Planned, agent: str) -> list[Problem]:
    """What is wrong for one agent, and with the directory it works in."""
    return [*planned.claims.problems.get(agent, ()), *planned.outcome.problems]
