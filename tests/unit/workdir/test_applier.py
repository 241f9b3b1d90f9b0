"""The applier brings a directory up to date under its lock, and can undo it."""

import os
from pathlib import Path

import pytest

from gascity.model.session_context import Machine
from gascity.workdir.applier import Applier, ApplyResult
from gascity.workdir.decide.context import Choices
from gascity.workdir.planner import open_scope
from gascity.workdir.write.directory import Directory
from gascity.workdir.write.ledger import Ledgers
from tests.support.session_workdirs import Quarters

MACHINE = Machine("linux", "2030-01-02")


@pytest.fixture
def city(tmp_path: Path) -> Quarters:
    return Quarters(tmp_path / "town", {"README.md": "hello\n"})


class Run:
    """One applier with what it reported."""

    def __init__(self, city: Quarters, run: str = "run-1") -> None:
        self.scope = open_scope(str(city.root), city.environ, MACHINE)
        self.reports: list[str] = []
        self.progress: list[tuple[int, int]] = []
        self.applier = Applier(
            self.scope.planner, run, self.reports.append, lambda *done: self.progress.append(done)
        )

    def apply(self, name: str, choices: Choices = Choices()) -> ApplyResult:  # noqa: B008
        agent = next(agent for agent in self.scope.agents if str(agent.name) == name)
        site = self.scope.planner.sites.of(agent)
        return self.applier.apply(os.path.realpath(site.workdir), [site], choices)


def test_files_ledger_and_progress(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "text", "overlay/b": "more"})
    run = Run(city)
    result = run.apply("mayor")
    root = city.place("work/mayor")
    assert [step.path for step in result.done] == ["a", "b"]
    assert (root / "a").read_text() == "text"
    assert run.progress == [(1, 2), (2, 2)]
    ledger = Ledgers(str(city.root)).read(str(root))
    assert ledger == result.ledger._replace(written=ledger.written) if result.ledger else False
    assert set(ledger.paths) == {"a", "b"}
    assert set(ledger.agents["mayor"]) == {"prompt", "overlay", "skills", "mcp", "launch"}


def test_an_agent_without_files_gets_an_empty_directory(city: Quarters) -> None:
    city.agent("mayor")
    assert Run(city).apply("mayor").done == ()
    assert city.place("work/mayor").is_dir()


def test_a_worktree_is_created_before_its_files(city: Quarters) -> None:
    city.agent("cat", 'scope = "rig"', **{"overlay/a": "text"})
    result = Run(city).apply("dock/cat")
    assert [step.op for step in result.done] == ["worktree", "write"]
    assert (city.place("worktrees/dock/cat") / "README.md").read_text() == "hello\n"


def test_a_step_overtaken_by_another_process_is_kept(
    city: Quarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    city.agent("mayor", **{"overlay/a": "text"})
    root = city.place("work/mayor")
    root.mkdir(parents=True)
    real = Directory.apply

    def overtaken(self: Directory, change: object) -> object:
        (root / "a").write_text("mine")
        return real(self, change)  # type: ignore[arg-type]

    monkeypatch.setattr(Directory, "apply", overtaken)
    result = Run(city).apply("mayor")
    assert result.done == ()
    assert [(step.path, step.reason) for step in result.kept] == [
        ("a", "changed during apply; run `city apply` again")
    ]
    assert (root / "a").read_text() == "mine"


def test_an_error_of_the_disk_names_the_command_that_continues(
    city: Quarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    city.agent("mayor", **{"overlay/a": "text"})
    city.place("work/mayor").mkdir(parents=True)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "a")

    monkeypatch.setattr(Directory, "apply", full)
    (problem,) = Run(city).apply("mayor").problems
    assert (problem.code, problem.message) == ("refused", "a: No space left on device")
    assert problem.hint == "fix this and run `city apply` again; it continues where it stopped"


def test_undo_removes_a_worktree_that_the_apply_created(city: Quarters) -> None:
    city.agent("cat", 'scope = "rig"', **{"overlay/a": "text"})
    run = Run(city)
    run.apply("dock/cat")
    root = str(city.place("worktrees/dock/cat"))
    result = run.applier.undo(root, "run-1")
    assert [change.path for change in result.restored] == ["a"]
    assert run.reports == ["removed worktree .gc/worktrees/dock/cat"]
    assert not os.path.exists(root)


def test_undo_keeps_paths_that_changed_since(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "text"})
    run = Run(city)
    run.apply("mayor")
    root = city.place("work/mayor")
    (root / "a").write_text("mine")
    result = run.applier.undo(str(root), "run-1")
    assert [change.path for change in result.kept] == ["a"]
    assert (root / "a").read_text() == "mine"
