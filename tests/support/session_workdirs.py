"""City whose session directories are prepared as its controller would."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gascity.model.city import Agent
from gascity.pipeline import find_agent, open_city
from gascity.prompts import Machine
from gascity.workdir.prepare_session import PreparedSession, SessionPreparer, WorkdirRequest
from tests.support.git import repository
from tests.support.planned_city import Town

MACHINE = Machine("linux", "2030-01-02")


class Quarters(Town):
    """A town with sessions and a rig `dock`, which is a git repository."""

    def __init__(self, root: Path, files: dict[str, str | bytes] | None = None) -> None:
        super().__init__(root)
        self.dock = repository(self.rig(), files)
        self.environ = dict(os.environ)
        self._preparer: SessionPreparer | None = None

    @property
    def preparer(self) -> SessionPreparer:
        if self._preparer is None:
            city = open_city(str(self.root), self.environ)
            self._preparer = SessionPreparer(city, self.environ, MACHINE)
        return self._preparer

    def reload(self) -> None:
        """Read changed sources again before the next preparation."""
        self._preparer = None

    def named(self, name: str) -> Agent:
        found = find_agent(self.preparer.city, name)
        assert found is not None
        return found

    def prepare(self, name: str, slot: int = 1, **more: Any) -> PreparedSession:
        """Prepare a session's directory; the session must be able to start in it."""
        done = self.try_to_prepare(name, slot, **more)
        assert done.can_start, done.problems
        return done

    def try_to_prepare(self, name: str, slot: int = 1, **more: Any) -> PreparedSession:
        return self.preparer.prepare(self.named(name), workdir_request(slot, **more))

    def is_current(self, name: str, before: PreparedSession, slot: int = 1, **more: Any) -> bool:
        place = {"workdir": before.workdir, "branch": before.branch, **more}
        return self.preparer.is_current(self.named(name), before, workdir_request(slot, **place))

    def place(self, path: str) -> Path:
        return self.root / ".gc" / path


def workdir_request(slot: int = 1, **more: Any) -> WorkdirRequest:
    return WorkdirRequest(
        **{"session": f"session-{slot}", "alias": f"jack-{slot}", "slot": slot, **more}
    )


def prepare_workdir(arguments: Sequence[str]) -> int:
    """Run `prepare_workdir AGENT WORK` as a program; return 0 if a session could start."""
    name, work = arguments
    city = open_city(os.getcwd(), os.environ)
    agent = find_agent(city, name)
    assert agent is not None
    done = SessionPreparer(city, os.environ, MACHINE).prepare(agent, workdir_request(work=work))
    return 0 if done.can_start else 1
