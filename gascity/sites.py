"""Where an agent's sessions work: a directory of their own, a worktree, or a project in place."""

from collections.abc import Mapping
from functools import cached_property

from gascity.model.city import Agent, City, Rig
from gascity.model.layers import Setting, fold_field
from gascity.model.problems import Place, Problem, warning
from gascity.model.records import NamedTuple
from gascity.model.tables import RIG
from gascity.render.variables import Scene, functions, variables
from gascity.source.disk import Disk, is_below
from gascity.source.fragments import default_branch, has_commit

OWN = "own"  # ours alone, under .gc/
WORKTREE = "worktree"  # a worktree of the rig, ours to make
PLACE = "place"  # somebody's directory: a person may be working there too
_BIND = "`city rig add PATH --name NAME` says where it is"
# What we keep below .gc/ besides directories to work in.
_STATE = frozenset(
    "backup bin cache excludes last-good launch ledger local locks logs mcp-adopted mcp-managed"
    " reports run schemas system undo".split()
)
PREPARED = "prepared"  # the branch's last part where no work item gives it
MARK = "~"  # no agent's name has it: what follows tells the directories of one agent apart


class Location(NamedTuple):
    """A working directory before git was asked anything."""

    workdir: str
    kind: str
    rig: str = ""  # absolute path of the rig, for a worktree
    problems: tuple[Problem, ...] = ()


def locate(city: City, agent: Agent, disk: Disk, scene: Scene = Scene()) -> Location:  # noqa: B008
    """The directory that the agent's first session would get."""
    rig = city.rig_of(agent)
    rig_path = disk.absolute(rig.path) if rig and rig.path else ""
    if rig is not None and not (rig_path and disk.is_directory(rig_path)):
        return Location(rig_path, PLACE, problems=(_missing(rig, rig_path),))
    isolated = bool(rig_path) and _isolated(agent, rig, disk)
    written = agent.setting("work_dir")
    if not written.value:
        return _usual(city, agent, rig, rig_path, isolated)
    from gascity.gotemplate import TemplateError, render_text

    try:
        known = variables(city, agent, scene)
        path = disk.absolute(render_text(str(written.value), known, functions=functions()))
    except TemplateError as error:
        words = f"`work_dir`: {error.message}"
        fault = Problem("template-failed", words, written.place, error.hint or None)
        return Location("", OWN, problems=(fault,))
    if ".git" in path.split("/"):
        fault = Problem("bad-work-dir", f"`work_dir` lies inside .git: {path}", written.place)
        return Location(path, PLACE, problems=(fault,))
    own = is_below(path, f"{city.root}/.gc")
    if own and _of_the_state(path[len(city.root) + 5 :]):
        words = f"`work_dir` lies in the city's own state: {path}"
        fault = Problem("bad-work-dir", words, written.place)
        return Location(path, PLACE, problems=(fault,))
    if isolated and not is_below(path, rig_path):
        return Location(path, WORKTREE, rig_path)
    return Location(path, OWN if own else PLACE)


def _of_the_state(path: str) -> bool:
    """Is a path below .gc one that we keep something in? Packs also put directories there."""
    first, _, rest = path.partition("/")
    shared = first in ("work", "worktrees")
    return (
        not first
        or first in _STATE
        or first.startswith(("city.", "controller"))
        or (shared and not rest)
    )


def _missing(rig: Rig, path: str) -> Problem:
    if not path:
        return Problem("rig-missing", f"rig `{rig.name}` is nowhere on this machine", None, _BIND)
    return Problem("rig-missing", f"rig `{rig.name}`: there is no directory {path}", None, _BIND)


def _isolated(agent: Agent, rig: Rig | None, disk: Disk) -> bool:
    """Does a session get a worktree? A repository without a commit has none to give."""
    if rig is None or rig.path is None or not rig.git or agent.value("isolation") == "none":
        return False
    return has_commit(disk, rig.path)


def _usual(city: City, agent: Agent, rig: Rig | None, rig_path: str, isolated: bool) -> Location:
    if rig is None:
        return Location(f"{city.root}/.gc/work/{agent.name}", OWN)
    if isolated:
        return Location(f"{city.root}/.gc/worktrees/{agent.name}", WORKTREE, rig_path)
    return Location(rig_path, PLACE, problems=tuple(_crowded(agent, rig)))


def _crowded(agent: Agent, rig: Rig) -> list[Problem]:
    """A pool that shares one directory although nobody asked for that."""
    if agent.value("max_active_sessions") == 1 or agent.value("isolation") == "none":
        return []
    why = "has no commit yet" if rig.git else "is not a git repository"
    return [
        warning(
            "shared-directory",
            f"rig `{rig.name}` {why}: all sessions of `{agent.name}` work in one directory",
            agent.setting("max_active_sessions").place,
            "make it a repository with a commit, or set max_active_sessions = 1",
        )
    ]


class Site:
    """One agent's working directory, and what git knows of it; git is asked only when needed."""

    def __init__(
        self, sites: "Sites", agent: Agent, location: Location, mark: str = "", session: str = ""
    ) -> None:
        """`mark` is empty for the directory that `apply` makes. `session` is the alias of the one
        session that works here, if it is known."""
        self._sites = sites
        self.agent = agent
        self.workdir = location.workdir
        self.kind = location.kind
        self.rig = location.rig
        self.problems = location.problems
        self.mark = mark
        self.session = session
        self.standing = ""  # the branch that is checked out here, if it is known

    @property
    def branch(self) -> str:
        """The branch that a worktree made by `apply` stands on."""
        return self.branch_for(PREPARED)

    def branch_for(self, work: str) -> str:
        """The branch of an item of work; none where there is no worktree."""
        return f"city/{self.agent.name.without_rig}/{work}" if self.kind == WORKTREE else ""

    def look_again(self) -> None:
        """Forget what git said before the directory was made."""
        for name in ("repository", "tracked"):
            self.__dict__.pop(name, None)

    @cached_property
    def repository(self) -> str:
        """The top of the work tree it lies in, or nothing. Our own directories are outside git."""
        if self.kind == OWN:
            return ""
        return self._sites.toplevel(self.workdir)

    @cached_property
    def tracked(self) -> frozenset[str]:
        """Paths below the directory that git tracks; of a worktree to come, those of its base."""
        if self.kind == OWN:
            return frozenset()
        if self.repository:
            from gascity import git

            return git.tracked(self.workdir, self._sites.environ)
        return self._sites.base_paths(self) if self.kind == WORKTREE else frozenset()


class Sites:
    """The working directories of one city."""

    def __init__(self, city: City, disk: Disk, environ: Mapping[str, str]) -> None:
        self.city = city
        self.disk = disk
        self.environ = environ
        self._paths: dict[str, tuple[str, frozenset[str]]] = {}  # by rig: a commit, its files
        self._sites: dict[str, Site] = {}

    def of(self, agent: Agent) -> Site:
        name = str(agent.name)
        if name not in self._sites:
            rig = self.city.rig_of(agent)
            branch = default_branch(self.disk, rig.path) if rig and rig.path else ""
            found = locate(self.city, agent, self.disk, Scene(default_branch=branch))
            self._sites[name] = Site(self, agent, found)
        return self._sites[name]

    def located(self, agent: Agent, alias: str) -> Location:
        """Where sessions of that alias work, before their slots are told apart."""
        rig = self.city.rig_of(agent)
        branch = default_branch(self.disk, rig.path) if rig and rig.path else ""
        return locate(self.city, agent, self.disk, Scene(default_branch=branch, session=alias))

    def of_session(self, agent: Agent, alias: str, slot: int = 1, spare: int = 1) -> Site:
        """Where a session works; `spare` counts on where its slot's own directory is kept.

        Sessions of one agent share a place that a person chose, unless its name has theirs in it.
        """
        first = self.of(agent)
        found = self.located(agent, alias) if agent.value("work_dir") else _location(first)
        own = found.workdir != first.workdir
        if not own and (found.kind == PLACE or (found.kind == OWN and agent.value("work_dir"))):
            return first
        more = numbered(1 if own else slot, spare)
        return self.at(agent, found._replace(workdir=found.workdir + more), alias)

    def at(self, agent: Agent, location: Location, session: str) -> Site:
        """One of an agent's directories that belongs to one session at a time."""
        from os.path import realpath

        from gascity.apply.ledger import ledger_key

        real = realpath(location.workdir)
        rest = real.removeprefix(realpath(self.of(agent).workdir))
        if rest and (rest == real or rest[0] != MARK):
            rest = MARK + ledger_key(real)[:8]
        return Site(self, agent, location, rest, session)

    def toplevel(self, path: str) -> str:
        from os.path import exists, isdir

        from gascity import git

        here = path
        while len(here) > 1 and not exists(f"{here}/.git"):
            here = here.rpartition("/")[0]
        return (git.toplevel(path, self.environ) or "") if len(here) > 1 and isdir(path) else ""

    def default_branch(self, agent: Agent) -> str | None:
        """The branch a person said that work starts from."""
        written = self._branch(agent)
        return str(written.value) if written and written.value else None

    def branch_place(self, agent: Agent) -> Place | None:
        """Where they said so."""
        written = self._branch(agent)
        return written.place if written else None

    def _branch(self, agent: Agent) -> Setting | None:
        rig = self.city.rig_of(agent)
        return fold_field(rig.layers, RIG, "default_branch") if rig else None

    def base(self, site: Site) -> str:
        """The commit that a new worktree starts from, or nothing."""
        from gascity import git

        found = git.base_of(site.rig, self.default_branch(site.agent), self.environ)
        return found.commit if found else ""

    def base_paths(self, site: Site) -> frozenset[str]:
        commit = self.base(site)
        return self.paths_in(site.rig, commit) if commit else frozenset()

    def paths_in(self, rig: str, commit: str) -> frozenset[str]:
        """Files of a commit; those of the last one that was asked about are kept."""
        from gascity import git

        known = self._paths.get(rig)
        if known is None or known[0] != commit:
            known = self._paths[rig] = (commit, git.tree_paths(rig, commit, self.environ))
        return known[1]


def _location(site: Site) -> Location:
    return Location(site.workdir, site.kind, site.rig, site.problems)


def numbered(slot: int, spare: int) -> str:
    """What a slot's directory has after its name: nothing, `~2`, or `~2.3` for its third one."""
    if spare > 1:
        return f"{MARK}{slot}.{spare}"
    return f"{MARK}{slot}" if slot > 1 else ""


def is_numbered(mark: str) -> bool:
    """Is it what `numbered` makes?"""
    return mark[:1] == MARK and all(one.isdecimal() for one in mark[1:].split(".", 1))


def nested(sites: list[Site]) -> list[tuple[Site, Problem]]:
    """Directories a person put strictly inside another agent's; what lies in .gc/ is apart."""
    roots = {site.workdir: site for site in sites if site.workdir}
    found = []
    for site in sites:
        if not site.agent.value("work_dir") or "/.gc/" in site.workdir:
            continue
        above = site.workdir.rpartition("/")[0]
        while above and above not in roots:
            above = above.rpartition("/")[0]
        if above:
            other = roots[above]
            words = f"`work_dir` lies inside the directory of `{other.agent.name}`"
            place = site.agent.setting("work_dir").place
            found.append((site, Problem("bad-work-dir", words, place, "choose another place")))
    return found
