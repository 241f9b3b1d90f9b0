"""Working directories of sessions: their own directory, a git worktree, or the project itself.

A city agent works in `.gc/work/NAME`; an agent of a rig that is a git repository in a worktree
`.gc/worktrees/NAME`; any other agent of a rig in the rig directory. `work_dir` overrides this.
Further sessions of the same agent get directories beside the first: `NAME~2`, `NAME~3`, …
"""

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from gascity.model.city import Agent, City, Rig
from gascity.model.problems import Place, Problem, warning
from gascity.model.session_context import SessionContext
from gascity.source.disk import Disk, is_below

OWN = "own"  # managed by city, under .gc/
WORKTREE = "worktree"  # a worktree of the rig, created by city
IN_PLACE = "place"  # the user's directory; the user may be working there too
_BIND = "run `city rig add PATH --name NAME` to set its path"
# Entries of .gc/ that are not working directories.
_STATE = frozenset(
    "backup bin cache excludes last-good launch ledger local locks logs mcp-adopted mcp-managed"
    " reports run schemas system undo".split()
)
PREPARED = "prepared"  # last part of the branch name when there is no work item
_NO_SESSION = SessionContext()
SUFFIX_MARK = "~"  # not allowed in agent names; starts the suffix of an additional directory


class Location(NamedTuple):
    """A working directory, determined without asking git."""

    workdir: str
    kind: str
    rig: str = ""  # absolute path of the rig, for a worktree
    problems: tuple[Problem, ...] = ()


def locate(city: City, agent: Agent, disk: Disk, scene: SessionContext = _NO_SESSION) -> Location:
    """Return the directory of the agent's first session."""
    rig = city.rig_of(agent)
    rig_path = disk.absolute(rig.path) if rig and rig.path else ""
    if rig is not None and not (rig_path and disk.is_directory(rig_path)):
        return Location(rig_path, IN_PLACE, problems=(_missing_rig(rig, rig_path),))
    isolated = bool(rig_path) and _isolated(agent, rig, disk)
    setting = agent.setting("work_dir")
    if not setting.value:
        return _default_location(city, agent, rig, rig_path, isolated)
    from gascity.gotemplate import TemplateError, render_text
    from gascity.render.variables import functions, variables

    try:
        values = variables(city, agent, scene)
        path = disk.absolute(render_text(str(setting.value), values, functions=functions()))
    except TemplateError as error:
        message = f"`work_dir`: {error.message}"
        problem = Problem("template-failed", message, setting.place, error.hint or None)
        return Location("", OWN, problems=(problem,))
    if ".git" in path.split("/"):
        problem = Problem("bad-work-dir", f"`work_dir` is inside .git: {path}", setting.place)
        return Location(path, IN_PLACE, problems=(problem,))
    own = is_below(path, f"{city.root}/.gc")
    if own and _is_state(path[len(city.root) + 5 :]):
        message = f"`work_dir` is inside the city's own state: {path}"
        problem = Problem("bad-work-dir", message, setting.place)
        return Location(path, IN_PLACE, problems=(problem,))
    if isolated and not is_below(path, rig_path):
        return Location(path, WORKTREE, rig_path)
    return Location(path, OWN if own else IN_PLACE)


def _is_state(path: str) -> bool:
    """Return whether a path below .gc is used by city. Packs may use other directories there."""
    first, _, rest = path.partition("/")
    shared = first in ("work", "worktrees")
    return (
        not first
        or first in _STATE
        or first.startswith(("city.", "controller"))
        or (shared and not rest)
    )


def _missing_rig(rig: Rig, path: str) -> Problem:
    if not path:
        message = f"rig `{rig.name}` has no path on this machine"
    else:
        message = f"rig `{rig.name}`: directory {path} does not exist"
    return Problem("rig-missing", message, None, _BIND)


def _isolated(agent: Agent, rig: Rig | None, disk: Disk) -> bool:
    """Return whether sessions get a worktree. git needs a commit to create one."""
    if rig is None or rig.path is None or not rig.git or agent.settings.isolation == "none":
        return False
    return has_commit(disk, rig.path)


def _default_location(
    city: City, agent: Agent, rig: Rig | None, rig_path: str, isolated: bool
) -> Location:
    if rig is None:
        return Location(f"{city.root}/.gc/work/{agent.name}", OWN)
    if isolated:
        return Location(f"{city.root}/.gc/worktrees/{agent.name}", WORKTREE, rig_path)
    return Location(rig_path, IN_PLACE, problems=tuple(_shared_directory(agent, rig)))


def _shared_directory(agent: Agent, rig: Rig) -> list[Problem]:
    """Warn about a pool whose sessions share one directory without the user having asked for it."""
    if agent.settings.max_active_sessions == 1 or agent.settings.isolation == "none":
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
    """One agent's working directory. Git is asked only when an answer is needed, and once."""

    def __init__(
        self, sites: "Sites", agent: Agent, location: Location, suffix: str = "", session: str = ""
    ) -> None:
        """`suffix` is empty for the directory that `apply` writes. `session` is the alias of the
        only session that works here, if known."""
        self._sites = sites
        self.agent = agent
        self.workdir = location.workdir
        self.kind = location.kind
        self.rig = location.rig
        self.problems = location.problems
        self.suffix = suffix
        self.session = session
        self.current_branch = ""  # the branch checked out here, if known

    @property
    def branch(self) -> str:
        """The branch of a worktree that `apply` creates."""
        return self.branch_for(PREPARED)

    def branch_for(self, work: str) -> str:
        """Return the branch name for a work item; empty if this is not a worktree."""
        return f"city/{self.agent.name.without_rig}/{work}" if self.kind == WORKTREE else ""

    def forget_git(self) -> None:
        """Drop cached answers of git, because the directory was created since."""
        for name in ("repository", "tracked"):
            self.__dict__.pop(name, None)

    @cached_property
    def repository(self) -> str:
        """The top of the work tree that contains it, or empty. OWN directories are outside git."""
        if self.kind == OWN:
            return ""
        return self._sites.toplevel(self.workdir)

    @cached_property
    def tracked(self) -> frozenset[str]:
        """Tracked paths below the directory; before a worktree exists, the paths of its base."""
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
        self._paths: dict[str, tuple[str, frozenset[str]]] = {}  # by rig: a commit and its files
        self._sites: dict[str, Site] = {}

    def of(self, agent: Agent) -> Site:
        """Return the site of an agent's first session."""
        name = str(agent.name)
        if name not in self._sites:
            self._sites[name] = Site(self, agent, self.locate_session(agent, ""))
        return self._sites[name]

    def locate_session(self, agent: Agent, alias: str) -> Location:
        """Return where sessions with this alias work, before slots get a suffix."""
        rig = self.city.rig_of(agent)
        branch = default_branch(self.disk, rig.path) if rig and rig.path else ""
        return locate(
            self.city, agent, self.disk, SessionContext(default_branch=branch, session=alias)
        )

    def for_session(self, agent: Agent, alias: str, slot: int = 1, attempt: int = 1) -> Site:
        """Return where a session works; `attempt` > 1 if the slot's earlier directories are in use.

        Sessions share a `work_dir` that the user chose, unless it contains the session's name.
        """
        first = self.of(agent)
        location = (
            self.locate_session(agent, alias)
            if agent.settings.work_dir
            else Location(first.workdir, first.kind, first.rig, first.problems)
        )
        own = location.workdir != first.workdir
        if not own and (
            location.kind == IN_PLACE or (location.kind == OWN and agent.settings.work_dir)
        ):
            return first
        workdir = location.workdir + directory_suffix(1 if own else slot, attempt)
        return self.at(agent, location._replace(workdir=workdir), alias)

    def at(self, agent: Agent, location: Location, session: str) -> Site:
        """Return the site for a directory that belongs to one session at a time."""
        from os.path import realpath

        from gascity.paths import path_key

        real = realpath(location.workdir)
        suffix = real.removeprefix(realpath(self.of(agent).workdir))
        if suffix and (suffix == real or suffix[0] != SUFFIX_MARK):
            suffix = SUFFIX_MARK + path_key(real)[:8]
        return Site(self, agent, location, suffix, session)

    def toplevel(self, path: str) -> str:
        """Return the top of the work tree that contains a path, or empty."""
        from os.path import exists, isdir

        from gascity import git

        here = path
        while len(here) > 1 and not exists(f"{here}/.git"):
            here = here.rpartition("/")[0]
        return (git.toplevel(path, self.environ) or "") if len(here) > 1 and isdir(path) else ""

    def default_branch(self, agent: Agent) -> str | None:
        """Return the rig's configured `default_branch`."""
        rig = self.city.rig_of(agent)
        return rig.settings.default_branch or None if rig else None

    def branch_place(self, agent: Agent) -> Place | None:
        """Return where `default_branch` is set."""
        rig = self.city.rig_of(agent)
        return rig.setting("default_branch").place if rig else None

    def base(self, site: Site) -> str:
        """Return the commit that a new worktree starts from, or empty."""
        from gascity import git

        base = git.base_of(site.rig, self.default_branch(site.agent), self.environ)
        return base.commit if base else ""

    def base_paths(self, site: Site) -> frozenset[str]:
        commit = self.base(site)
        return self.paths_in(site.rig, commit) if commit else frozenset()

    def paths_in(self, rig: str, commit: str) -> frozenset[str]:
        """Return the files of a commit. Caches the last commit per rig."""
        from gascity import git

        cached = self._paths.get(rig)
        if cached is None or cached[0] != commit:
            cached = self._paths[rig] = (commit, git.tree_paths(rig, commit, self.environ))
        return cached[1]


def directory_suffix(slot: int, attempt: int) -> str:
    """Return a directory's suffix: none, `~2` for slot 2, or `~2.3` for its third directory."""
    if attempt > 1:
        return f"{SUFFIX_MARK}{slot}.{attempt}"
    return f"{SUFFIX_MARK}{slot}" if slot > 1 else ""


def is_directory_suffix(text: str) -> bool:
    """Return whether `directory_suffix` could have returned it."""
    return text[:1] == SUFFIX_MARK and all(part.isdecimal() for part in text[1:].split(".", 1))


def nested_problems(sites: list[Site]) -> list[tuple[Site, Problem]]:
    """Report a `work_dir` strictly inside another agent's directory, except below .gc/."""
    by_path = {site.workdir: site for site in sites if site.workdir}
    problems = []
    for site in sites:
        if not site.agent.settings.work_dir or "/.gc/" in site.workdir:
            continue
        parent = site.workdir.rpartition("/")[0]
        while parent and parent not in by_path:
            parent = parent.rpartition("/")[0]
        if parent:
            message = f"`work_dir` is inside the directory of `{by_path[parent].agent.name}`"
            place = site.agent.setting("work_dir").place
            hint = "choose another directory"
            problems.append((site, Problem("bad-work-dir", message, place, hint)))
    return problems


def default_branch(disk: Disk, rig: str) -> str:
    """Return the branch that new work starts from: origin's default branch, else HEAD's."""
    for file, prefix in (
        (".git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/"),
        (".git/HEAD", "ref: refs/heads/"),
    ):
        text = _git_text(disk, f"{rig}/{file}")
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    return ""


def has_commit(disk: Disk, rig: str) -> bool:
    """Is there a commit for a worktree? Reads git's files, because this is asked often."""
    head = _git_text(disk, f"{rig}/.git/HEAD")
    if not head.startswith("ref: "):
        return bool(head) or not disk.is_directory(disk.absolute(f"{rig}/.git"))
    ref = head.removeprefix("ref: ")
    if disk.exists(disk.absolute(f"{rig}/.git/{ref}")):
        return True
    packed = _git_text(disk, f"{rig}/.git/packed-refs")
    return any(line.endswith(f" {ref}") for line in packed.splitlines())


def _git_text(disk: Disk, file: str) -> str:
    path = disk.absolute(file)
    data = disk.read(path) if disk.exists(path) else None
    return (data or b"").decode("utf-8", "replace").strip()
