"""Reads what a provider finds in a project by itself: instructions, servers, skills, settings.

Which files these are is in the provider's facts. A repository is not ours to trust: every file and
directory is read with a limit, a link that leads out of the repository is not followed, and what
cannot be read is a warning at its place.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from gascity.mcp.shapes import server_files
from gascity.model.document_text import DocumentError, position
from gascity.model.problems import Place, Problem, warning
from gascity.model.provider import Provider
from gascity.model.values import as_text
from gascity.model.wanted import DOCUMENT, Shape
from gascity.source.disk import Disk, read_plain
from gascity.workdir.decide.skills import skill_directories

if TYPE_CHECKING:
    from gascity.model.plan import PathRecord

INSTRUCTIONS, SERVER, SKILL = "instructions", "server", "skill"
AGENT, COMMAND, SETTINGS = "agent", "command", "settings"
LAYER = "project"
SKILL_FILE = "SKILL.md"

_MOST_FILES = 500  # of one glob, or of one skill
_MOST_BYTES = 1024 * 1024  # of one file
_MOST_BYTES_READ = 32 * 1024 * 1024  # of all files of a project
_MOST_LEVELS = 6  # of directories below the start of a `**`
_MOST_DIRECTORIES = 2000  # that are listed
_MOST_PARENTS = 40


class ProjectItem(NamedTuple):
    """One thing that a provider reads from a project.

    `path` is shown to the user; `relative` is the path below the project, empty for a file above
    it. `shadows` and `shadowed_by` are paths as shown: of the project or of the city.
    """

    kind: str
    name: str
    path: str
    line: int
    relative: str = ""
    shadows: tuple[str, ...] = ()
    shadowed_by: str = ""
    hides: str = ""  # the city's definition among `shadows`
    same_as: str = ""  # the city's definition that is equal, and therefore not written
    definition: Mapping[str, object] | None = None  # of a server

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


class Project(NamedTuple):
    """Files that a provider reads from one project, and warnings about them. `root` is as shown."""

    root: str = ""
    items: tuple[ProjectItem, ...] = ()
    problems: tuple[Problem, ...] = ()

    def of_kind(self, kind: str) -> list[ProjectItem]:
        return [item for item in self.items if item.kind == kind]


class ProjectPlace(NamedTuple):
    """Location of the files: `root` is the checkout, `workdir` where sessions of the agent run.

    `managed` returns the paths of the checkout that city wrote itself.
    """

    root: str
    workdir: str
    is_worktree: bool
    managed: "Callable[[], Mapping[str, PathRecord]]"


def read_project(
    provider: Provider,
    disk: Disk,
    place: ProjectPlace,
    tracked: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> Project:
    """Read everything that a provider finds in a project, without comparing it with the city.

    `tracked` returns those of some paths that the agent's directory will have; None: it has all.
    """
    reader = _Reader(provider, disk, place)
    project = reader.read()
    items = list(project.items)
    paths = sorted({item.relative for item in items if item.relative})
    if tracked is not None and paths:
        existing = {"", *tracked(paths)}
        items = [item for item in items if item.relative in existing]
    _shadow_instructions(items, provider, reader.text)
    _shadow_same_names(items, SERVER, "first")
    _shadow_same_names(items, SKILL, provider.facts.project.same_skill)
    return project._replace(items=tuple(items))


def instruction_names(provider: Provider) -> tuple[str, ...]:
    """Return the instructions files that a provider looks for in a directory, in its order."""
    facts = provider.facts
    if facts.project.instructions == "none":
        return ()
    return (*facts.project.overrides, facts.instructions_file, *facts.instructions_also)


def is_same_tree(
    tracked: Iterable[str], path: str, disk: Disk, source: str, read: Callable[[str], bytes]
) -> bool:
    """Return whether the tracked files below a path equal the files of a skill's directory.

    `read` returns the content of a tracked file. Links out of the skill make it another one.
    """
    from gascity.source.catalogues import read_files

    inside = path + "/"
    own = {name.removeprefix(inside): name for name in tracked if name.startswith(inside)}
    if not own or len(own) > _MOST_FILES:
        return False
    files, problems = read_files(disk, source, source)
    if problems or {file.path for file in files} != own.keys():
        return False
    return all(read_plain(file.absolute) == read(own[file.path]) for file in files)


class _Reader:
    """The items and problems of one project while it is read."""

    def __init__(self, provider: Provider, disk: Disk, place: ProjectPlace) -> None:
        self.provider = provider
        self.facts = provider.facts
        self.disk = disk
        self.place = place
        self.problems: list[Problem] = []
        self.bytes_left = _MOST_BYTES_READ
        self.directories_left = _MOST_DIRECTORIES

    def read(self) -> Project:
        before = len(self.disk.problems)
        items = (
            *self._instructions(),
            *self._servers(),
            *self._skills(),
            *self._agents(),
            *self._commands(),
            *self._settings(),
        )
        found = map(_as_warning, self.disk.take_problems(before))
        root = self.disk.shown(self.place.root)
        return Project(root, items, tuple(dict.fromkeys((*found, *self.problems))))

    # Instructions

    def _instructions(self) -> Iterator[ProjectItem]:
        for directory in self._directories():
            for name in instruction_names(self.provider):
                for path in self._matching(name, directory):
                    yield self._item(INSTRUCTIONS, path, f"{directory}/{path}")
        for path in self._all_matching(self.facts.project.rules):
            yield self._item(INSTRUCTIONS, path, f"{self.place.root}/{path}")

    def _directories(self) -> Iterator[str]:
        """Yield the directories with instructions, the outermost first, the project last."""
        mode, place = self.facts.project.parents, self.place
        above: list[str] = []
        inside = mode == "repository" and not place.is_worktree
        # The top of a worktree is the top of its repository.
        here = place.workdir if mode == "all" or inside else ""
        while len(here) > 1 and len(above) < _MOST_PARENTS:
            if inside and self.disk.exists(f"{here}/.git"):
                break
            here = here.rpartition("/")[0]
            if here and here != place.root:
                above.append(here)
        else:
            above = [] if inside else above  # no repository: only its own directory
        yield from reversed(above)
        yield place.root

    # Servers

    def _servers(self) -> Iterator[ProjectItem]:
        for path, shape in server_files(self.provider):
            yield from self._servers_in(path, shape)

    def _servers_in(self, path: str, shape: Shape) -> Iterator[ProjectItem]:
        supported = shape.format in ("json", "toml")
        text = self.text(path) if supported and self._exists(path) else None
        if text is None:
            return
        from gascity.mcp import documents

        record = self.place.managed().get(path)
        managed = (record.entries or {}) if record else {}
        try:
            servers = documents.servers(documents.read(text, shape.format), shape)
        except DocumentError as error:
            self._report(path, error.message, error.line, error.col)
            return
        for index, (name, entry) in enumerate(list(servers.items())[:_MOST_FILES]):
            line = _line(text, shape, name, index)
            if not isinstance(entry, Mapping):
                self._report(path, f"server `{name}` is not a table of keys", line)
            elif name not in managed:
                item = self._item(SERVER, name, f"{self.place.root}/{path}", line)
                yield item._replace(definition=entry)

    # Skills

    def _skills(self) -> Iterator[ProjectItem]:
        for directory in skill_directories(self.provider):
            yield from self._skills_in(directory)

    def _skills_in(self, directory: str) -> Iterator[ProjectItem]:
        for path in self._matching(f"{directory}/*/{SKILL_FILE}", self.place.root):
            text = self.text(path)
            if text is None:
                continue
            from gascity.model.skills import read_skill_text

            file = f"{self.place.root}/{path}"
            name = path.split("/")[-2]
            read = read_skill_text(name, text, self.disk.shown(file))
            # A provider ignores a skill with an error; anything less is for its author.
            self.problems += (each.softened() for each in read.problems if each.is_error)
            yield self._item(SKILL, name, file)

    # Agents, commands and settings

    def _agents(self) -> Iterator[ProjectItem]:
        own = self.facts.agents
        patterns = [f"{own.directory}/{own.pattern}"] if own.directory and own.pattern else []
        for pattern in (*patterns, *self.facts.project.agents):
            for path in self._matching(pattern, self.place.root):
                name, line = _file_name(path, pattern), 1
                if self.facts.project.agent_name:
                    name, line = self._name_in(path, self.facts.project.agent_name, name)
                yield self._item(AGENT, name, f"{self.place.root}/{path}", line)

    def _name_in(self, path: str, key: str, default: str) -> tuple[str, int]:
        """Return the name that an agent's file gives it, and the line."""
        from gascity.mcp import documents
        from gascity.model.front_matter import read_front_matter

        text = self.text(path) or ""
        form = os.path.splitext(path)[1][1:]
        if form in ("toml", "json"):
            try:
                name = as_text(documents.read(text, form).get(key))
            except DocumentError as error:
                self._report(path, error.message, error.line, error.col)
                return default, 1
            shape = Shape("", form, ())
            return (name, _line(text, shape, key, 0)) if name else (default, 1)
        front = read_front_matter(text)
        if front is not None and front.error:
            self._report(path, f"invalid front matter: {front.error}", front.error_line)
        name = as_text(front.values.get(key)) if front else ""
        return (name, front.lines.get(key, 1)) if front and name else (default, 1)

    def _commands(self) -> Iterator[ProjectItem]:
        for pattern in self.facts.project.commands:
            for path in self._matching(pattern, self.place.root):
                name = os.path.splitext(path.removeprefix(_fixed(pattern)))[0]
                yield self._item(COMMAND, name, f"{self.place.root}/{path}")

    def _settings(self) -> Iterator[ProjectItem]:
        servers = {path for path, _ in server_files(self.provider)}
        for path in self._all_matching(
            (*self.facts.project.settings, *self.facts.overlay.merge_files)
        ):
            text = self.text(path)
            if text is None:
                continue
            if path not in servers:  # these were parsed, and an error was reported
                from gascity.mcp import documents

                try:
                    documents.read(text, "toml" if path.endswith(".toml") else "json")
                except DocumentError as error:
                    self._report(path, error.message, error.line, error.col)
            yield self._item(SETTINGS, path, f"{self.place.root}/{path}")

    # Files

    def _item(self, kind: str, name: str, file: str, line: int = 1) -> ProjectItem:
        root = self.place.root + "/"
        relative = file[len(root) :] if file.startswith(root) else ""
        return ProjectItem(kind, name, self.disk.shown(file), line, relative)

    def text(self, path: str) -> str | None:
        """Return the text of a file of the project; None if it does not exist or is not text."""
        file = f"{self.place.root}/{path}"
        size = self.disk.size(file)
        if size > min(_MOST_BYTES, self.bytes_left):
            self._report(path, f"too large to read: {size:,} bytes", 1)
            return None
        self.bytes_left -= size
        data = self.disk.read(file, within=self.place.root)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            self._report(path, "not UTF-8", 1)
            return None

    def _report(self, path: str, message: str, line: int, col: int = 1) -> None:
        shown = self.disk.shown(f"{self.place.root}/{path}")
        hint = f"{self.facts.display_name or self.provider.name} may ignore the file; fix it"
        place = Place(shown, line=line, col=col)
        self.problems.append(warning("bad-project-file", message, place, hint))

    def _all_matching(self, patterns: Iterable[str]) -> dict[str, None]:
        """Return the files that match any of some globs, each once."""
        root = self.place.root
        return {path: None for pattern in patterns for path in self._matching(pattern, root)}

    def _exists(self, path: str) -> bool:
        """Is there a file? Looks at each directory above it, which may be a link."""
        return any(self._walk(self.place.root, "", path.split("/"), 0))

    def _matching(self, pattern: str, directory: str) -> list[str]:
        """Return the files below a directory that match a glob and that city did not write."""
        paths: list[str] = []
        for path in self._walk(directory, "", pattern.removeprefix("./").split("/"), 0):
            if len(paths) == _MOST_FILES:
                message = f"more than {_MOST_FILES} files match {pattern}; the rest is not listed"
                self._report(path, message, 1)
                break
            if directory != self.place.root or not self._is_managed(path):
                paths.append(path)
        return paths

    def _is_managed(self, path: str) -> bool:
        """Did city write the file, or a link above it? A file with a few managed keys is theirs."""
        record = self.place.managed().get(path)
        if record is not None:
            return record.kind != DOCUMENT or record.made
        parent = path.rpartition("/")[0]
        while parent:
            if parent in self.place.managed():
                return True
            parent = parent.rpartition("/")[0]
        return False

    def _walk(self, root: str, path: str, parts: Sequence[str], level: int) -> Iterator[str]:
        """Yield the files below `path` that match the parts of a glob, sorted."""
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._walk(root, path, rest, level)
            for name in self._names(root, path) if level < _MOST_LEVELS else ():
                if self._is_directory(root, path + name):
                    yield from self._walk(root, f"{path}{name}/", parts, level + 1)
            return
        names = [first]
        if "*" in first:
            names = [name for name in self._names(root, path) if fnmatchcase(name, first)]
        for name in names:
            if not rest and self._is_file(root, path + name):
                yield path + name
            elif rest and self._is_directory(root, path + name):
                yield from self._walk(root, f"{path}{name}/", rest, level)

    def _names(self, root: str, path: str) -> list[str]:
        if self.directories_left == 0:
            message = f"more than {_MOST_DIRECTORIES} directories; the rest is not listed"
            self._report(path, message, 1)
        self.directories_left -= 1
        return self.disk.names(f"{root}/{path}".rstrip("/")) if self.directories_left >= 0 else []

    def _is_file(self, root: str, path: str) -> bool:
        mode = self._mode(root, path)
        return mode is not None and stat.S_ISREG(mode)

    def _is_directory(self, root: str, path: str) -> bool:
        mode = self._mode(root, path)
        return mode is not None and stat.S_ISDIR(mode)

    def _mode(self, root: str, path: str) -> int | None:
        """Return the mode of a path; None if it does not exist or leads out of the repository."""
        file = f"{root}/{path}"
        try:
            status = os.lstat(file)
            if stat.S_ISLNK(status.st_mode):
                if not self.disk.follow_directory(file, root):
                    return None
                status = os.stat(file)
        except OSError:
            self.disk.seen.setdefault(file, None)
            return None
        self.disk.stamp(file, status)
        return status.st_mode


def _as_warning(problem: Problem) -> Problem:
    """Return a problem with a file of a project as a warning: the project is not the city's."""
    if problem.code == "link-leaves-pack":
        message = problem.message.replace("out of its pack", "out of the repository")
        return warning(
            "link-leaves-project", message, problem.place, "replace it with the file itself"
        )
    return problem.softened()


def _shadow_instructions(
    items: list[ProjectItem], provider: Provider, read: Callable[[str], str | None]
) -> None:
    """Record which files are not read because another one in the same directory is.

    A file that the other one includes is read too. `read` returns the text of a project's file.
    """
    sign = provider.facts.project.includes
    if provider.facts.project.instructions != "first":
        return
    names, winners = instruction_names(provider), dict[str, int]()
    for index, item in enumerate(items):
        if item.kind == INSTRUCTIONS and item.name in names:
            winner = winners.setdefault(os.path.dirname(item.path), index)
            if winner == index:
                continue
            text = read(items[winner].relative) if sign and items[winner].relative else None
            path = os.path.basename(item.path)
            if not {f"{sign}{path}", f"{sign}./{path}"}.intersection((text or "").split()):
                _shadow(items, winner, index)


def _shadow_same_names(items: list[ProjectItem], kind: str, rule: str) -> None:
    """Record which items of a kind are hidden by others of the same name; they are in order."""
    winners: dict[str, int] = {}
    for index, item in enumerate(items):
        if item.kind != kind or rule == "both":
            continue
        winner = winners.setdefault(item.name, index)
        if winner != index and rule == "first":
            _shadow(items, winner, index)
        elif winner != index:
            _shadow(items, index, winner)
            winners[item.name] = index


def _shadow(items: list[ProjectItem], winner: int, loser: int) -> None:
    """Record that one item hides another, and what that one hid before."""
    hidden = (*items[loser].shadows, items[loser].path)
    items[winner] = items[winner]._replace(shadows=(*items[winner].shadows, *hidden))
    items[loser] = items[loser]._replace(shadows=(), shadowed_by=items[winner].path)


def _fixed(pattern: str) -> str:
    """Return the directories at the start of a glob that have no wildcard."""
    fixed = pattern.partition("*")[0]
    return fixed[: fixed.rfind("/") + 1]


def _file_name(path: str, pattern: str) -> str:
    """Return an agent's name: the part of its path that the last wildcard matches."""
    folder, _, file = path.rpartition("/")
    last = pattern.rpartition("/")[2]
    return file.removesuffix(last.partition("*")[2]) if "*" in last else os.path.basename(folder)


def _line(text: str, shape: Shape, name: str, index: int) -> int:
    """Return the line in which a server, or a key, is written."""
    path = (*shape.key, index if shape.list_name else name)
    if shape.format == "toml":
        from gascity.toml.positions import locate

        return locate(text, path)[0]
    from gascity.jsonc.tree import find

    found = find(text, path)
    return position(text, found[1].start)[0] if found else 1
