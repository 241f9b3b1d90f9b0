"""Lists the files of a skill. Links are followed only inside the pack."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence

from gascity.model.problems import Place, Problem, warning
from gascity.model.skills import SkillFile
from gascity.source.disk import Disk

_MAX_LINKS = 2


def read_files(
    disk: Disk, directory: str, within: str
) -> tuple[tuple[SkillFile, ...], tuple[Problem, ...]]:
    """Return the files below a directory, sorted by path, and problems with them.

    A link that leads out of `within` is an error, and its target is not listed.
    """
    before = len(disk.problems)
    found = tuple(_walk(disk, directory, "", within, _MAX_LINKS))
    noted = tuple(disk.problems[before:])
    del disk.problems[before:]
    return found, noted


def files_of(disk: Disk, packs: Iterable[tuple[str, str]]) -> Callable[[str], Sequence[SkillFile]]:
    """A lister of files for `plan.skills.sink_plan`.

    `packs` are pairs of a skill's directory and the root of its pack, both absolute.
    """
    roots = dict(packs)
    return lambda directory: read_files(disk, directory, roots[directory])[0]


def template_problems(disk: Disk, directory: str, files: Iterable[SkillFile]) -> Iterator[Problem]:
    """Warn of templates in a skill: skills are copied unchanged."""
    for file in files:
        name = file.path.rpartition("/")[2]
        if ".template." in name:
            yield warning(
                "skill-template",
                f"`{name}` is copied unchanged: templates in skills are not rendered",
                Place(disk.shown(f"{directory}/{file.path}")),
                "write the final text, and remove `.template` from its name",
            )


def _walk(disk: Disk, directory: str, prefix: str, within: str, links: int) -> Iterator[SkillFile]:
    """Yield files recursively; at most `links` more linked directories are followed."""
    for name in disk.names(directory):
        path = f"{directory}/{name}"
        if name == ".git":
            continue
        followed = _followed(disk, path, within)
        if followed is None:
            continue
        real, found = followed
        if stat.S_ISREG(found.st_mode):
            stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
            yield SkillFile(prefix + name, real, found.st_mode & 0o777, stamp)
        elif not stat.S_ISDIR(found.st_mode):
            disk.problems.append(_no_file(disk, path))
        elif real == path:
            yield from _walk(disk, path, f"{prefix}{name}/", within, links)
        elif links:
            yield from _walk(disk, real, f"{prefix}{name}/", within, links - 1)
        else:
            words = "the link leads through too many links"
            disk.problems.append(Problem("link-loop", words, Place(disk.shown(path))))


def _followed(disk: Disk, path: str, within: str) -> tuple[str, os.stat_result] | None:
    """Return the real path and status; None if a link must not be followed."""
    try:
        found = os.lstat(path)
        if not stat.S_ISLNK(found.st_mode):
            return path, found
        if disk.follow_directory(path, within):
            return os.path.realpath(path), os.stat(path)
    except OSError:  # it was removed meanwhile, which changes the stamp of the directory
        pass
    return None


def _no_file(disk: Disk, path: str) -> Problem:
    words = f"`{os.path.basename(path)}` is neither a file nor a directory"
    return warning("not-a-file", words, Place(disk.shown(path)), "it is not copied")
