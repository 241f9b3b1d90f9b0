"""Reads catalogues: the names in them, overlays, skills with their files, template fragments."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.problems import Place, Problem, warning
from gascity.source.disk import Disk, bad_utf8, is_below

if TYPE_CHECKING:  # only some commands need them
    from gascity.model.skills import SkillFile
    from gascity.model.wanted import Overlay, OverlayFile

_SUFFIXES = {
    "mcp": (".template.toml", ".toml"),
    "template-fragments": (".template.md",),
    "hud": (".template.md", ".md"),
    "memory": (".md",),
}

_INFIX = ".template."  # of a template's name
_MAX_LINKS = 2  # linked directories that are followed, one in the other
_FRAGMENT_SUFFIXES = (".md.tmpl", ".template.md")  # the newer spelling last, so that it wins


class Skill(NamedTuple):
    """A skill; `problems` are those of its own files, `pack` is the root of its pack."""

    name: str
    description: str
    path: str
    problems: tuple[Problem, ...] = ()
    pack: str = "."

    @property
    def broken(self) -> bool:
        """Does it have an error, so that providers would ignore it?"""
        return any(problem.is_error for problem in self.problems)


def entry_names(disk: Disk, directory: str, kind: str) -> list[str]:
    """Return the names in a catalogue: skills by directory, servers and fragments by file."""
    names = [name for name in disk.names(disk.absolute(directory)) if name[0] not in "._"]
    if kind == "skills":
        return [name for name in names if disk.is_directory(disk.absolute(f"{directory}/{name}"))]
    if kind == "overlay":
        return disk.names(disk.absolute(directory))
    stems = dict.fromkeys(
        name.removesuffix(suffix)
        for name in names
        for suffix in _SUFFIXES[kind]
        if name.endswith(suffix)
    )
    return [name for name in stems if not name.endswith(".template")]


def read_skills(disk: Disk, directory: str, pack: str) -> Iterator[Skill]:
    """Read the skills below a directory, sorted by name; links must stay inside the pack."""
    _report_broken_links(disk, directory, pack)
    lowered: dict[str, str] = {}
    for name in entry_names(disk, directory, "skills"):
        path = f"{directory}/{name}"
        skill = read_skill(disk, name, path, pack)
        first = lowered.setdefault(name.lower(), name)
        if first != name:
            message = f"skills `{name}` and `{first}` differ only in case"
            clash = Problem("case-clash", message, Place(path), "rename one of them")
            skill = skill._replace(problems=(*skill.problems, clash))
        yield skill


def _report_broken_links(disk: Disk, directory: str, pack: str) -> None:
    for name in disk.names(disk.absolute(directory)):
        path = disk.absolute(f"{directory}/{name}")
        if os.path.islink(path) and not os.path.exists(path):
            disk.follow_directory(path, disk.absolute(pack))  # adds the problem


def read_skill(disk: Disk, name: str, path: str, pack: str) -> Skill:
    """Read a skill with all its problems; links must stay inside `pack`."""
    from gascity.model.skills import SKILL_FILE, read_skill_text

    file, within = f"{path}/{SKILL_FILE}", disk.absolute(pack)
    before = len(disk.problems)
    follows = disk.follow_directory(disk.absolute(path), within)
    data = disk.read(disk.absolute(file), within=within) if follows else None
    read_problems = disk.take_problems(before)
    if data is None:
        explained = any(problem.is_error for problem in read_problems)
        missing = () if explained else (_missing_file(disk, name, path),)
        return Skill(name, "", path, (*read_problems, *missing), pack)
    problem = bad_utf8(data, file)
    if problem is not None:
        return Skill(name, "", path, (problem,), pack)
    text = read_skill_text(name, data.decode(), file)
    files, problems = read_files(disk, disk.absolute(path), within)
    templates = template_problems(disk, disk.absolute(path), files)
    return Skill(name, text.description, path, (*text.problems, *problems, *templates), pack)


def _missing_file(disk: Disk, name: str, path: str) -> Problem:
    misspelt = [file for file in disk.names(disk.absolute(path)) if file.lower() == "skill.md"]
    if misspelt:
        message = f"skill `{name}` has no SKILL.md: `{misspelt[0]}` is not read"
        return Problem("skill-without-file", message, Place(path), f"rename {path}/{misspelt[0]}")
    return Problem(
        "skill-without-file",
        f"skill `{name}` has no SKILL.md",
        Place(path),
        f"create {path}/SKILL.md, or move the directory",
    )


def read_files(
    disk: Disk, directory: str, within: str
) -> tuple[tuple["SkillFile", ...], tuple[Problem, ...]]:
    """Return the files below a directory, sorted by path, and problems with them.

    A link that leads out of `within` is an error, and its target is not listed.
    """
    before = len(disk.problems)
    files = tuple(_walk(disk, directory, "", within, _MAX_LINKS))
    return files, tuple(disk.take_problems(before))


def files_of(
    disk: Disk, packs: Iterable[tuple[str, str]]
) -> Callable[[str], Sequence["SkillFile"]]:
    """A lister of files for `workdir.decide.skills.sink_plan`.

    `packs` are pairs of a skill's directory and the root of its pack, both absolute.
    """
    roots = dict(packs)
    return lambda directory: read_files(disk, directory, roots[directory])[0]


def template_problems(
    disk: Disk, directory: str, files: Iterable["SkillFile"]
) -> Iterator[Problem]:
    """Warn of templates in a skill: skills are copied unchanged."""
    for file in files:
        name = file.path.rpartition("/")[2]
        if _INFIX in name:
            yield warning(
                "skill-template",
                f"`{name}` is copied unchanged: templates in skills are not rendered",
                Place(disk.shown(f"{directory}/{file.path}")),
                "write the final text, and remove `.template` from its name",
            )


def _walk(
    disk: Disk, directory: str, prefix: str, within: str, links: int
) -> Iterator["SkillFile"]:
    """Yield files recursively; at most `links` more linked directories are followed."""
    from gascity.model.skills import SkillFile

    for name in disk.names(directory):
        path = f"{directory}/{name}"
        if name == ".git":
            continue
        followed = _followed(disk, path, within)
        if followed is None:
            continue
        real, status = followed
        if stat.S_ISREG(status.st_mode):
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            yield SkillFile(prefix + name, real, status.st_mode & 0o777, stamp)
        elif not stat.S_ISDIR(status.st_mode):
            disk.problems.append(_no_file(disk, path))
        elif real == path:
            yield from _walk(disk, path, f"{prefix}{name}/", within, links)
        elif links:
            yield from _walk(disk, real, f"{prefix}{name}/", within, links - 1)
        else:
            message = "the link leads through too many links"
            disk.problems.append(Problem("link-loop", message, Place(disk.shown(path))))


def _followed(disk: Disk, path: str, within: str) -> tuple[str, os.stat_result] | None:
    """Return the real path and status; None if a link must not be followed."""
    try:
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode):
            return path, status
        if disk.follow_directory(path, within):
            return os.path.realpath(path), os.stat(path)
    except OSError:  # it was removed meanwhile, which changes the stamp of the directory
        pass
    return None


def _no_file(disk: Disk, path: str) -> Problem:
    message = f"`{os.path.basename(path)}` is neither a file nor a directory"
    return warning("not-a-file", message, Place(disk.shown(path)), "it is not copied")


def read_fragments(disk: Disk, directory: str) -> Iterator[tuple[str, str]]:
    """Yield the fragment files of a directory, as displayed, with their texts."""
    names = disk.names(disk.absolute(directory))
    for suffix in _FRAGMENT_SUFFIXES:
        for name in names:
            if name.endswith(suffix) and name[0] not in "._":
                text = read_text(disk, f"{directory}/{name}")
                if text is not None:
                    yield f"{directory}/{name}", text


def read_text(disk: Disk, file: str) -> str | None:
    """Read a text file of the city; None with a problem recorded on the disk."""
    data = disk.read(disk.absolute(file))
    if data is None:
        return None
    problem = bad_utf8(data, file)
    if problem is not None:
        disk.problems.append(problem)
        return None
    return data.decode()


def read_overlay(disk: Disk, directory: str, origin: str, pack: str) -> "Overlay":
    """List an overlay directory, given as displayed. No file in it is opened."""
    from gascity.model.wanted import Overlay

    top = disk.absolute(directory)
    lister = _Lister(disk, top, disk.absolute(pack))
    before = len(disk.problems)
    lister.list(top, "")
    read_problems = disk.take_problems(before)
    files = [
        _overlay_file(path, f"{directory}/{path}", absolute, status)
        for path, absolute, status in lister.files
    ]
    providers = sorted({file.provider for file in files if file.provider})
    kept, clashes = _without_clashes(files)
    problems = [*read_problems, *lister.problems, *clashes]
    return Overlay(origin, pack, tuple(kept), tuple(providers), tuple(problems))


class _Lister:
    """Walks a tree. Links are followed if they stay inside the pack."""

    def __init__(self, disk: Disk, top: str, pack: str) -> None:
        self.disk = disk
        self.top = top
        self.pack = os.path.realpath(pack)
        self.files: list[tuple[str, str, os.stat_result]] = []
        self.problems: list[Problem] = []
        self._inside: list[str] = []  # real paths of the directories above, to stop at loops

    def list(self, directory: str, below: str) -> None:
        real = os.path.realpath(directory)
        if real in self._inside:
            return
        self._inside.append(real)
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
            self.disk.stamp(directory, os.stat(directory))
        except (FileNotFoundError, NotADirectoryError):
            entries = []
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            self._note("unreadable", message, directory, None)
            entries = []
        for entry in entries:
            self._add(entry, f"{below}{entry.name}")
        self._inside.pop()

    def _add(self, entry: os.DirEntry[str], path: str) -> None:
        if entry.name in (".git", ".gc"):
            message = f"`{entry.name}` is never written into a working directory"
            self._note("forbidden-path", message, entry.path, "remove it from the overlay")
            return
        if entry.is_symlink() and not self._may_follow(entry.path):
            return
        if entry.is_dir():
            self.list(entry.path, f"{path}/")
        elif entry.is_file():
            status = entry.stat()
            self.disk.stamp(entry.path, status)
            self.files.append((path, entry.path, status))
        else:
            self._note(
                "not-a-file", f"`{entry.name}` is neither a file nor a directory", entry.path
            )

    def _may_follow(self, path: str) -> bool:
        if not os.path.exists(path):
            self.disk.is_folder_of(path, self.pack)  # records the broken link
            return False
        if is_below(os.path.realpath(path), self.pack):
            return True
        self.disk.follow_directory(path, self.pack)  # records the problem
        return False

    def _note(self, code: str, message: str, path: str, hint: str | None = None) -> None:
        self.problems.append(Problem(code, message, Place(self.disk.shown(path)), hint))


def _overlay_file(path: str, source: str, absolute: str, status: os.stat_result) -> "OverlayFile":
    """Derive provider and target name from a path: `per-provider/NAME/…` and `x.template.md`."""
    from gascity.model.wanted import PER_PROVIDER, OverlayFile

    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    mode = status.st_mode & 0o777
    provider = ""
    if path.startswith(f"{PER_PROVIDER}/") and path.count("/") > 1:
        _, provider, path = path.split("/", 2)
    head, slash, name = path.rpartition("/")
    if _INFIX not in name:
        return OverlayFile(path, source, absolute, mode, stamp, provider)
    path = head + slash + name.replace(_INFIX, ".", 1)
    return OverlayFile(path, source, absolute, mode, stamp, provider, True)


def _without_clashes(
    files: list["OverlayFile"],
) -> tuple[list["OverlayFile"], list[Problem]]:
    """Reject a template and a plain file of the same name; neither is used."""
    if not any(file.template for file in files):
        return files, []
    by_name: dict[tuple[str, str], OverlayFile] = {}
    clashing: dict[tuple[str, str], Problem] = {}
    for file in files:
        first = by_name.setdefault((file.provider, file.path), file)
        if first is not file:
            plain, template = (first, file) if file.template else (file, first)
            clashing[file.provider, file.path] = Problem(
                "overlay-clash",
                f"{template.source} and {plain.source} would both be `{file.path}`",
                Place(template.source, line=1, col=1),
                "keep one of them",
            )
    kept = [file for key, file in by_name.items() if key not in clashing]
    return kept, list(clashing.values())
