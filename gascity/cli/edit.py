"""Edits of a person's files: tried on the whole city first, written only if nothing breaks."""

import os
from collections.abc import Collection, Mapping

from gascity.apply.files import replace_all
from gascity.cli.context import Context
from gascity.model.city import City
from gascity.model.problems import CityError, Problem
from gascity.pipeline import open_city
from gascity.source.agents import read_table
from gascity.source.disk import Disk, is_below, read_plain
from gascity.source.toml import parse


def read_text(root: str, file: str) -> str:
    """A file of the city as text; a file that is not there yet is empty.

    Raises CityError for what no edit could keep: a file that is not TOML, or not a file.
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
    """The files beside agents' own that define the city itself."""
    files = ["city.toml", "city.local.toml", "pack.toml"]
    included = parse(read_text(root, "city.toml").encode()).get("include")
    for one in included if isinstance(included, list) else ():
        if isinstance(one, str) and is_below(os.path.normpath(f"{root}/{one}"), root):
            files.append(os.path.normpath(one.lstrip("/")))
    return files


def refuse(code: str, message: str, hint: str | None = None) -> CityError:
    """What to raise when an edit cannot be made."""
    return CityError(Problem(code, message, None, hint))


def new_errors(before: City, after: City, known: Collection[str] = ()) -> list[Problem]:
    """Errors that an edit brought; those of the codes in `known` do not count."""
    old = set(before.everything_wrong)
    fresh = [p for p in after.everything_wrong if p.is_error and p not in old]
    return [p for p in fresh if p.code not in known]


def write_if_sound(
    context: Context, city: City, files: Mapping[str, str], known: Collection[str] = ()
) -> City:
    """Write texts by shown path, unless they bring an error that the city does not have now.

    They are written in the order given. Errors of the codes in `known` stop nothing. Returns the
    city as it is with them.
    """
    data = {os.path.join(city.root, file): text.encode() for file, text in files.items()}
    after = open_city(city.root, context.environ, disk=Disk(city.root, data))
    fresh = new_errors(city, after, known)
    if fresh:
        context.tried = dict(files)
        raise CityError(*fresh)
    replace_all(data)
    return after
