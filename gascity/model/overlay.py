"""Overlay files as they were found."""

from gascity.model.plan import Stamp
from gascity.model.problems import Problem
from gascity.model.records import NamedTuple

PER_PROVIDER = "per-provider"


class OverlayFile(NamedTuple):
    """One file of an overlay. `path` is what it is called in a working directory."""

    path: str
    source: str
    absolute: str
    mode: int
    stamp: Stamp
    provider: str = ""
    template: bool = False


class Overlay(NamedTuple):
    """What one `overlay/` directory holds."""

    origin: str
    pack: str
    files: tuple[OverlayFile, ...] = ()
    providers: tuple[str, ...] = ()  # the names under per-provider/
    problems: tuple[Problem, ...] = ()
