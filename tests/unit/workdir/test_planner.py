"""The planner finds directories and the steps for them, and writes nothing."""

import os
from pathlib import Path

import pytest

from gascity.location import IN_PLACE, WORKTREE
from gascity.model.plan import KEEP, REMOVE, Step
from gascity.model.session_context import Machine
from gascity.workdir.decide.context import Choices
from gascity.workdir.planner import (
    DirectoryPlan,
    PlanningScope,
    differs,
    open_scope,
    problems_of,
    session_sites,
)
from gascity.workdir.write.ledger import Ledger, Ledgers
from tests.support.session_workdirs import Quarters

MACHINE = Machine("linux", "2030-01-02")


@pytest.fixture
def city(tmp_path: Path) -> Quarters:
    return Quarters(tmp_path / "town", {"README.md": "hello\n"})


def opened(city: Quarters, reference: str | None = None) -> PlanningScope:
    return open_scope(str(city.root), city.environ, MACHINE, reference)


def plan(scope: PlanningScope, name: str, choices: Choices = Choices()) -> DirectoryPlan:  # noqa: B008
    agent = next(agent for agent in scope.agents if str(agent.name) == name)
    site = scope.planner.sites.of(agent)
    return scope.planner.plan(os.path.realpath(site.workdir), [site], choices, scope.selected)


def ops(plan: DirectoryPlan) -> list[tuple[str, str]]:
    return [(step.op, step.path) for step in plan.steps]


def test_a_plan_writes_nothing(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "text"})
    found = plan(opened(city), "mayor")
    assert ops(found) == [("write", "a")]
    assert not city.place("work/mayor").exists()
    assert not city.place("ledger").exists()


def test_a_worktree_to_come_is_planned_from_its_base_commit(city: Quarters) -> None:
    city.agent("cat", 'scope = "rig"\noverlay_tracked = "keep"', **{"overlay/README.md": "ours"})
    found = plan(opened(city), "dock/cat")
    assert ops(found) == [("worktree", "."), ("keep", "README.md")]
    assert found.read("README.md") == b"hello\n"


def test_nothing_is_planned_for_an_agent_with_an_error(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "text", "overlay/b.template.md": "{{ .Nothing }}"})
    found = plan(opened(city), "mayor")
    assert found.requirements.blocked == {"mayor"}
    assert found.steps == []
    assert any(problem.is_error for problem in problems_of(found, "mayor"))


def test_agents_of_one_directory_are_grouped_by_its_real_path(city: Quarters) -> None:
    (city.root / "desk").mkdir()
    (city.root / "link").symlink_to("desk")
    for name, path in (("ann", "desk"), ("bob", "link")):
        city.agent(name, f'work_dir = "{path}"')
    scope = opened(city)
    agents = [agent for agent in scope.agents if str(agent.name) in ("ann", "bob")]
    ((root, sites),) = scope.planner.directories(agents).items()
    assert root == str(city.root / "desk")
    assert {site.kind for site in sites} == {IN_PLACE}


def test_what_no_agent_wants_any_more_belongs_to_those_who_wanted_it(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "text"})
    city.fine("apply", "mayor")
    city.remove("agents/mayor/overlay/a")
    found = plan(opened(city), "mayor")
    (step,) = found.steps
    assert step.op == REMOVE
    assert found.claimants(step) == ("mayor",)


def test_session_directories_are_those_with_a_ledger(city: Quarters) -> None:
    city.agent("cat", 'scope = "rig"')
    city.prepare("dock/cat", 2, work="w-1")
    city.place("worktrees/dock/cat~3").mkdir()  # nobody recorded it
    scope = opened(city, "dock/cat")
    ((root, site),) = session_sites(scope.planner, scope.agents).items()
    assert root == str(city.place("worktrees/dock/cat~2"))
    assert (site.kind, site.suffix) == (WORKTREE, "~2")


def test_only_one_agent_is_read_unless_others_have_files_in_its_directory(city: Quarters) -> None:
    for name in ("ann", "bob"):
        city.agent(name, **{"overlay/a": "text"})
    assert len(opened(city, "ann").planner.city.agents) == 1
    root = str(city.place("work/ann"))
    city.fine("apply", "ann")
    ledgers = Ledgers(str(city.root))
    ledger = ledgers.read(root)
    shared = {path: record._replace(agents=("ann", "bob")) for path, record in ledger.paths.items()}
    ledgers.write(Ledger(root, shared))
    assert len(opened(city, "ann").planner.city.agents) > 1


def test_a_plan_that_only_keeps_changes_nothing() -> None:
    assert not differs([Step(KEEP, "a", "", "", "")])
    assert differs([Step(REMOVE, "a", "", "", "")])
