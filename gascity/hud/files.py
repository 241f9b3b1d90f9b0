"""Reads the files that a HUD section shows: `file:tasks/*.md`."""

import os
from collections.abc import Iterator, Sequence
from glob import iglob

from gascity.source.disk import is_below, read_plain

MAX_BYTES = 64 * 1024  # of all files together
_MAX_FILES = 200
_STATE = (".gc", ".git")


def file_values(globs: Sequence[str], directories: Sequence[str]) -> list[dict[str, str]]:
    """Return the files that match, sorted by path, from the first directory that has any."""
    for directory in directories:
        paths = sorted({path for glob in globs for path in _matches(glob, directory)})
        if paths:
            return list(_contents(paths[:_MAX_FILES], directory))
    return []


def _matches(glob: str, directory: str) -> Iterator[str]:
    """Yield paths of files inside the directory; a link must not lead out of it."""
    if not os.path.isdir(directory):
        return
    top = os.path.realpath(directory)
    for path in iglob(glob, root_dir=directory):
        real = os.path.realpath(os.path.join(directory, path))
        inside = is_below(real, top) and not set(real[len(top) :].split("/")) & set(_STATE)
        if inside and os.path.isfile(real):
            yield path


def _contents(paths: Sequence[str], directory: str) -> Iterator[dict[str, str]]:
    room = MAX_BYTES
    for path in paths:
        data = read_plain(os.path.join(directory, path))
        if data is None or b"\0" in data[:room]:
            continue
        text = data[:room].decode("utf-8", "replace")
        room -= min(len(data), room)
        yield {"Path": path, "Title": _title(text, path), "Text": text}
        if not room:
            return


def _title(text: str, path: str) -> str:
    """Return the first heading, else the file's name."""
    headings = (line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#"))
    return next(headings, "") or os.path.basename(path)
