"""Reads the files of a source from disk, within limits and without leaving the source."""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from functools import cache

from gascity.model.problems import CityError, Place, Problem
from gascity_migrate.importers.types import SourceFile

MOST_FILES = 20_000
MOST_BYTES = 200_000_000
_MOST_OF_ONE = 20_000_000
_SKIPPED = frozenset((".git", "node_modules", "__pycache__", ".venv"))

# Files that make a directory inside the source a project of its own.
_OF_PROJECTS = (
    ".claude/agents",
    ".claude/skills",
    ".codex/agents",
    ".codex/config.toml",
    ".cursor/agents",
    ".cursor/mcp.json",
    ".cursor/rules",
    ".gemini/agents",
    ".gemini/settings.json",
    ".github/agents",
    ".mcp.json",
    ".opencode/agent",
    ".opencode/agents",
    "opencode.json",
)
_MOST_LEVELS, _MOST_DIRECTORIES = 4, 2000  # that are searched for projects


class DiskTree:
    """The files below a directory, read when asked for; a symlink that leaves it is refused.

    If `single` is set, only that file matches a pattern; files that it names can be read.
    `progress` is called with the number of files after each file that was read.
    """

    def __init__(
        self,
        root: str,
        shown: str = "",
        *,
        single: str = "",
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.root = os.path.realpath(root)
        self.single = single
        self._shown = shown
        self._hidden: Collection[str] = ()
        self._progress = progress
        self._read: dict[str, SourceFile | None] = {}
        self._bytes = 0

    def hide(self, paths: Collection[str]) -> None:
        """Treat files and directories as missing."""
        self._hidden = paths

    def matching(self, *patterns: str) -> list[str]:
        paths = {path for pattern in patterns for path in self._matching(pattern)}
        return sorted(paths)

    def read(self, path: str) -> SourceFile | None:
        if path not in self._read:
            self._read[path] = self._load(path)
            self._progress(len(self._read))
        return self._read[path]

    def shown(self, path: str) -> str:
        return f"{self._shown}/{path}" if self._shown and path else path or self._shown

    def projects_below(self) -> Iterator[tuple[str, str]]:
        """Yield the directories of a monorepo that have files of tools, and the first of these."""
        if self.single:
            return
        for count, (directory, folders, files) in enumerate(os.walk(self.root)):
            path = os.path.relpath(directory, self.root)
            heads = {*folders, *files}
            named = (name for name in _OF_PROJECTS if name.partition("/")[0] in heads)
            own = next((name for name in named if os.path.exists(f"{directory}/{name}")), "")
            if own and path != ".":
                yield path, own
            deep = path.count("/") + 1 >= _MOST_LEVELS or (own and path != ".")
            visible = (name for name in sorted(folders) if name[0] != "." and name not in _SKIPPED)
            folders[:] = () if deep or count > _MOST_DIRECTORIES else visible

    def _matching(self, pattern: str) -> Iterator[str]:
        base = "/".join(_literal_directories(pattern))
        if "*" not in pattern:
            if self.single in ("", pattern) and self.read(pattern) is not None:
                yield pattern
            return
        # Every skill asks for all files of its own directory: no pattern to compile for each.
        matches = _anything if pattern == f"{base}/**/*" else compiled(pattern)
        for path in self._files_below(base):
            if matches(path) and (not self.single or path == self.single):
                yield path

    def _files_below(self, base: str) -> Iterator[str]:
        count = 0
        start = os.path.join(self.root, base)
        seen: set[str] = set()
        for directory, folders, names in os.walk(start, followlinks=True):
            seen.add(self._real(directory))
            inside = os.path.relpath(directory, self.root)
            prefix = "" if inside == "." else f"{inside}/"
            folders[:] = [
                folder
                for folder in sorted(set(folders) - _SKIPPED)
                if prefix + folder not in self._hidden
                and self._real(os.path.join(directory, folder)) not in seen  # a link upwards
            ]
            for name in sorted(names):
                count += 1
                if count > MOST_FILES:
                    raise self._too_large(base, f"more than {MOST_FILES} files")
                yield prefix + name

    def _load(self, path: str) -> SourceFile | None:
        if path in self._hidden:
            return None
        absolute = os.path.join(self.root, path)
        try:
            status = os.stat(absolute)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._error(path, "unreadable", f"cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            return None
        self._real(absolute)
        self._bytes += status.st_size
        if status.st_size > _MOST_OF_ONE:
            raise self._too_large(path, f"a file of more than {_MOST_OF_ONE // 1_000_000} MB")
        if self._bytes > MOST_BYTES:
            raise self._too_large(path, f"more than {MOST_BYTES // 1_000_000} MB")
        try:
            with open(absolute, "rb") as file:
                return SourceFile(file.read(_MOST_OF_ONE + 1), stat.S_IMODE(status.st_mode))
        except OSError as error:
            raise self._error(path, "unreadable", f"cannot be read: {error.strerror}") from None

    def _real(self, absolute: str) -> str:
        """Return the path without symlinks. Raises CityError if one leaves the source."""
        real = os.path.realpath(absolute)
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            shown = os.path.relpath(absolute, self.root)
            message = f"symlink to {real}, which is outside the source"
            hint = "replace the symlink with the file"
            raise CityError(Problem("leaves-source", message, Place(self.shown(shown)), hint))
        return real

    def _too_large(self, path: str, what: str) -> CityError:
        hint = "name a smaller directory or a single file"
        message = f"the source is too large: {what}"
        return CityError(Problem("source-too-large", message, Place(self.shown(path)), hint))

    def _error(self, path: str, code: str, message: str) -> CityError:
        return CityError(Problem(code, message, Place(self.shown(path))))


def _anything(path: str) -> object:
    return path


@cache
def compiled(pattern: str) -> Callable[[str], object]:
    """Return the match function of a pattern with `*` and `**/`."""
    parts = re.split(r"(\*\*/|\*)", pattern)
    words = {"**/": r"(?:[^/]+/)*", "*": r"[^/]*"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts)).fullmatch


def _literal_directories(pattern: str) -> list[str]:
    directories = pattern.split("/")[:-1]
    cut = next((at for at, part in enumerate(directories) if "*" in part), len(directories))
    return directories[:cut]
