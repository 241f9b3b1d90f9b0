"""Overlay directories and their files."""

from typing import NamedTuple

from gascity.model.plan import Stamp
from gascity.model.problems import Problem

PER_PROVIDER = "per-provider"


class OverlayFile(NamedTuple):
    """One file of an overlay. `path` is its path in a working directory."""

    path: str
    source: str
    absolute: str
    mode: int
    stamp: Stamp
    provider: str = ""
    template: bool = False


class Overlay(NamedTuple):
    """The contents of one `overlay/` directory."""

    origin: str
    pack: str
    files: tuple[OverlayFile, ...] = ()
    providers: tuple[str, ...] = ()  # the directory names under per-provider/
    problems: tuple[Problem, ...] = ()
