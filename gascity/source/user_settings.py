"""The user's own settings, `gascity/config.toml` in the XDG configuration directory."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Place, Problem
from gascity.model.tables import NOTIFY
from gascity.model.values import as_texts
from gascity.paths import config_home
from gascity.source.decode import decode

_KEYS = ("safe_cities", "notify")


class UserSettings(NamedTuple):
    """Settings of this user for all cities, and the file they are written in."""

    file: str
    safe_cities: tuple[str, ...] = ()  # roots that may belong to other users
    notify: tuple[Layer, ...] = ()  # [notify], below that of a city


def read_user_settings(environ: Mapping[str, str]) -> UserSettings:
    """Read the settings; CityError with every problem.

    A file of another user is ignored: it could name that user's cities and programs.
    """
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
        values = parse(data)
    except TomlError as error:
        place = Place(path, line=error.line, col=error.col)
        raise CityError(Problem(error.code, error.message, place, error.hint)) from None
    problems = [_unknown(path, key) for key in values if key not in _KEYS]
    cities = as_texts(values.get("safe_cities", []))
    if cities is None:
        place = Place(path, ("safe_cities",), of_value=True)
        problems.append(Problem("bad-type", "`safe_cities` should be a list of paths", place))
    notify = values.get("notify", {})
    if not isinstance(notify, dict):
        place = Place(path, ("notify",), of_value=True)
        problems.append(Problem("bad-type", "`notify` should be a table", place))
        notify = {}
    decoded = decode(NOTIFY, notify, path, ("notify",))
    problems += decoded.problems
    if problems:
        raise CityError(*problems)
    layers = (decoded.layer("user", path, ("notify",)),) if notify else ()
    return UserSettings(path, tuple(os.path.normpath(city) for city in cities or ()), layers)


def _unknown(path: str, key: str) -> Problem:
    message = f"`{key}` is not a setting of config.toml"
    return Problem("unknown-key", message, Place(path, (key,)), did_you_mean(key, _KEYS))
