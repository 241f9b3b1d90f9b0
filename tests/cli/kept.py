"""A city with a store, and commands called as one of its sessions."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gascity.control.callers import hashed
from gascity.model.work import POOL, RUNNING, ClaimToken, NewWork, Run, Session, Work
from gascity.store import open_store
from gascity.store.port import Store
from tests.cli.shapes import NUMBER, TEXT, Either, OneOf
from tests.support.command import Command, Ran

WORK = {
    "id": str,
    "agent": str,
    "rig": TEXT,
    "title": str,
    "status": OneOf("open", "claimed", "done", "failed", "cancelled"),
    "priority": int,
    "attempts": int,
    "created": str,
    "updated": str,
    "not_before": TEXT,
    "session": TEXT,
    "depends_on": [str],
    "branch": TEXT,
    "workdir": TEXT,
    "commits": int,
    "result": Either(dict, None),
    "log": TEXT,
    "reason": str,
    "failures": int,
    "parent": TEXT,
    "depth": int,
    "on": TEXT,
    "sender": str,
}
WORK_LIST = {"work": [WORK]}
WHOLE_WORK = {**WORK, "body": str, "position": NUMBER, "waits_for": [str]}
WORK_SHOW = {"work": [{**WHOLE_WORK, "branch_exists": Either(bool, None)}]}


class Kept:
    """A city and its store. What is written here is there for the next command."""

    def __init__(self, root: Path, run: Command) -> None:
        self.root = root
        self._run = run
        self.store: Store = open_store(str(root))

    def __call__(self, *arguments: str, as_: Session | None = None, **options: Any) -> Ran:
        """Run a command as a person, or as a session."""
        env: Mapping[str, str] = options.pop("env", {})
        if as_ is not None:
            give_token(self.store, as_)
        return self._run(
            *arguments, cwd=self.root, env={**identity(as_), **env} if as_ else {**env}, **options
        )

    def sling(self, agent: str = "mayor", title: str = "Open the gate", **more: Any) -> Work:
        body = more.pop("body", title)
        return self.store.add_work(NewWork(agent, title, body, **more), time.time())

    def session(self, alias: str = "mayor-1", agent: str = "mayor", **more: Any) -> Session:
        now = time.time()
        id = more.pop("id", "") or f"00000000-0000-4000-8000-{len(self.store.sessions()):012}"
        state = more.pop("state", RUNNING)
        values = {"slot": 1, "generation": 1, "workdir": f"{self.root}/.gc/work/{agent}"}
        values |= {"alias": alias, "state": state, "reason": "", "created": now, "updated": now}
        return self.store.add_session(
            Session(id, agent, more.pop("origin", POOL), **{**values, **more})
        )

    def claim(self, session: Session, work: Work) -> Work:
        token = ClaimToken(session.id, session.generation)
        taken = self.store.claim(token, time.time(), work=work.id)
        assert taken is not None
        assert taken.id == work.id
        return taken

    def status(self, work: Work) -> str:
        found = self.store.work(work.id)
        assert found is not None
        return found.status

    def now(self, session: Session) -> Session:
        found = self.store.session(session.id)
        assert found is not None
        return found


def give_token(store: Store, session: Session) -> None:
    """Record the run of a session's start, unless it was restarted since or has one."""
    current = store.session(session.id)
    known = (run.generation for run in store.runs(session=session.id))
    if current is not None and session.generation == current.generation not in known:
        place = {"log": "", "exit_file": "", "runtime": "process"}
        store.add_run(
            Run(
                0,
                session.id,
                session.generation,
                session.work,
                started=time.time(),
                token=hashed(f"secret of {session.id}"),
                **place,
            )
        )


def identity(session: Session) -> dict[str, str]:
    """The environment of a session, as far as it says who it is."""
    return {
        "CITY_SESSION_ID": session.id,
        "CITY_GENERATION": str(session.generation),
        "CITY_SESSION_TOKEN": f"secret of {session.id}",
        "CITY_AGENT": session.agent,
        "CITY_WORK_ID": session.work,
    }


@pytest.fixture
def kept(harbour: Path, run: Command) -> Iterator[Kept]:
    found = Kept(harbour, run)
    yield found
    found.store.close()


@pytest.fixture
def gc(kept: Kept, tmp_path: Path) -> Callable[..., Ran]:
    """The program under the name `gc`, as a session finds it."""
    program = tmp_path / "bin" / "gc"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom gascity.__main__ import main\n\nmain()\n")
    program.chmod(0o755)

    def call(*arguments: str, as_: Session | None = None, **environ: str) -> Ran:
        if as_ is not None:
            give_token(kept.store, as_)
            environ |= identity(as_)
        done = subprocess.run(
            [program, *arguments],
            cwd=kept.root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


def code_of(ran: Ran) -> str:
    """The code of the one problem that a command failed with under --json."""
    assert (ran.code, ran.err) == (1, "")
    (problem,) = ran.json["problems"]
    return str(problem["code"])
