"""The user's own settings, `gascity/config.toml` in the XDG configuration directory."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.problems import CityError, Place, Problem
from gascity.paths import config_home


class UserSettings(NamedTuple):
    """Settings of this user for all cities, and the file they are written in."""

    file: str
    safe_cities: tuple[str, ...] = ()  # roots that may belong to other users


def read_user_settings(environ: Mapping[str, str]) -> UserSettings:
    """Read the settings. A file of another user is ignored: it could name that user's cities."""
    path = os.path.join(config_home(environ), "gascity", "config.toml")
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_uid not in (0, os.geteuid()):
                return UserSettings(path)
            data = file.read()
    except OSError:
        return UserSettings(path)
    from gascity.toml.read import TomlError, parse

    try:
        cities = parse(data).get("safe_cities", [])
    except TomlError as error:
        place = Place(path, line=error.line, col=error.col)
        raise CityError(Problem(error.code, error.message, place, error.hint)) from None
    if not isinstance(cities, list) or not all(isinstance(city, str) for city in cities):
        place = Place(path, ("safe_cities",), of_value=True)
        raise CityError(Problem("bad-type", "`safe_cities` should be a list of paths", place))
    return UserSettings(path, tuple(os.path.normpath(city) for city in cities))
