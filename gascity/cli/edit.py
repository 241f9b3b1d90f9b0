"""Edits of the user's files: validated on the whole city, then written."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from gascity.cli.context import CommandContext
from gascity.files import locked, replace_files
from gascity.model.city import City
from gascity.model.problems import CityError, Problem
from gascity.model.values import as_list, as_text
from gascity.pipeline import open_city
from gascity.source.agents import read_table
from gascity.source.disk import Disk, is_below, read_plain
from gascity.toml.read import parse


@contextmanager
def editing(context: CommandContext) -> Iterator[City]:
    """Lock the city for an edit and load it."""
    root = context.root
    with locked(root):
        yield open_city(root, context.environ)


def read_text(root: str, file: str) -> str:
    """Read a TOML file of the city; a missing file is empty.

    Raises CityError for a file that no edit could preserve: invalid TOML, or not a regular file.
    """
    path = os.path.join(root, file)
    if not os.path.lexists(path):
        return ""
    disk = Disk(root)
    if read_table(disk, path) is None:
        raise CityError(*disk.problems)
    data = read_plain(path)
    return "" if data is None else data.decode()


def own_files(root: str) -> list[str]:
    """Return the files that define the city, without those of agents."""
    files = ["city.toml", "city.local.toml", "pack.toml"]
    included = parse(read_text(root, "city.toml").encode()).get("include")
    for file in map(as_text, as_list(included)):
        if file and is_below(os.path.normpath(f"{root}/{file}"), root):
            files.append(os.path.normpath(file.lstrip("/")))
    return files


def new_errors(before: City, after: City, known: Collection[str] = ()) -> list[Problem]:
    """Return the errors that an edit adds, without those of the `known` codes."""
    old = set(before.all_problems)
    added = [p for p in after.all_problems if p.is_error and p not in old]
    return [p for p in added if p.code not in known]


def write_if_valid(
    context: CommandContext, city: City, files: Mapping[str, str], known: Collection[str] = ()
) -> City:
    """Write files, by path in the city, in the given order; return the city after that.

    Raises CityError, and writes nothing, if they add an error of a code that is not `known`.
    """
    data = {os.path.join(city.root, file): text.encode() for file, text in files.items()}
    after = open_city(city.root, context.environ, disk=Disk(city.root, data))
    errors = new_errors(city, after, known)
    if errors:
        context.draft_texts = dict(files)
        raise CityError(*errors)
    if len(data) <= 1:
        replace_files(data)
    else:
        from gascity.workdir.write.transaction import replace_city_files

        replace_city_files(city.root, "edit", data)
    return after
