"""A city whose sessions get places to work, furnished as its controller would."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gascity.materialise.furnish import Furnished, Furnisher, Seat
from gascity.model.city import Agent
from gascity.pipeline import find_agent, open_city
from gascity.prompts import Machine
from tests.support.git import repository
from tests.support.towns import Town

MACHINE = Machine("linux", "2030-01-02")


class Quarters(Town):
    """A town with a rig `dock`, which is a repository, and with sessions."""

    def __init__(self, root: Path, files: dict[str, str | bytes] | None = None) -> None:
        super().__init__(root)
        self.dock = repository(self.rig(), files)
        self.environ = dict(os.environ)
        self._furnisher: Furnisher | None = None

    @property
    def furnisher(self) -> Furnisher:
        if self._furnisher is None:
            city = open_city(str(self.root), self.environ)
            self._furnisher = Furnisher(city, self.environ, MACHINE)
        return self._furnisher

    def reload(self) -> None:
        """The sources changed: whoever furnishes has to read them again."""
        self._furnisher = None

    def named(self, name: str) -> Agent:
        found = find_agent(self.furnisher.city, name)
        assert found is not None
        return found

    def furnish(self, name: str, slot: int = 1, **more: Any) -> Furnished:
        """A place for a session; it has to be one that a session can start in."""
        done = self.try_to_furnish(name, slot, **more)
        assert done.is_sound, done.problems
        return done

    def try_to_furnish(self, name: str, slot: int = 1, **more: Any) -> Furnished:
        return self.furnisher.furnish(self.named(name), seat(slot, **more))

    def is_current(self, name: str, before: Furnished, slot: int = 1, **more: Any) -> bool:
        place = {"workdir": before.workdir, "branch": before.branch, **more}
        return self.furnisher.is_current(self.named(name), before, seat(slot, **place))

    def place(self, path: str) -> Path:
        return self.root / ".gc" / path


def seat(slot: int = 1, **more: Any) -> Seat:
    return Seat(**{"session": f"session-{slot}", "alias": f"jack-{slot}", "slot": slot, **more})


def furnish(arguments: Sequence[str]) -> int:
    """`furnish AGENT WORK` as a program: 0 if a session could start."""
    name, work = arguments
    city = open_city(os.getcwd(), os.environ)
    agent = find_agent(city, name)
    assert agent is not None
    done = Furnisher(city, os.environ, MACHINE).furnish(agent, seat(work=work))
    return 0 if done.is_sound else 1
