"""Requirements of the agents of one directory are collected, and their conflicts reported."""

from pathlib import Path

from gascity.model.problems import Problem, warning
from gascity.model.wanted import DOCUMENT, FILE, LINK, WantedPath
from gascity.workdir.wanted import Requirements


def wanted(
    path: str, data: bytes = b"x", agent: str = "ann", source: str = "overlay/a"
) -> WantedPath:
    return WantedPath(path, FILE, source, "city", (agent,), data=data)


def test_agents_that_want_the_same_share_a_path() -> None:
    requirements = Requirements()
    requirements.add(wanted("a", agent="bob", source="other/a"))
    requirements.add(wanted("a", agent="ann"))
    assert requirements.wanted["a"].agents == ("ann", "bob")
    assert requirements.problems == {}


def test_a_copy_and_a_text_with_the_same_content_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    requirements = Requirements()
    requirements.add(wanted("a"))
    copy = WantedPath("a", FILE, "b", "city", ("bob",), copy_of=str(tmp_path / "a"))
    requirements.add(copy)
    assert requirements.blocked == set()


def test_different_content_blocks_both_agents() -> None:
    requirements = Requirements()
    requirements.add(wanted("a", b"one", "ann", "overlay/one"))
    requirements.add(wanted("a", b"two", "bob", "overlay/two"))
    assert requirements.blocked == {"ann", "bob"}
    (problem,) = requirements.problems["bob"]
    assert problem.code == "overlay-conflict"
    assert problem.message == (
        "agents `ann` and `bob` share a working directory and want different content "
        "at a: overlay/one, overlay/two"
    )


def test_one_agent_with_two_sources_for_a_path_is_told_both() -> None:
    requirements = Requirements()
    requirements.add(wanted("a", b"one", source="overlay/one"))
    requirements.add(wanted("a", b"two", source="overlay/two"))
    (problem, _) = requirements.problems["ann"]
    assert problem.message == "overlay/one and overlay/two cannot both be at a"


def test_other_modes_and_other_kinds_are_conflicts() -> None:
    for other in (
        wanted("a", agent="bob")._replace(mode=0o755),
        WantedPath("a", LINK, "s", "city", ("bob",), target="/x"),
        WantedPath("a", DOCUMENT, "s", "city", ("bob",), settings={}),
    ):
        requirements = Requirements()
        requirements.add(wanted("a"))
        requirements.add(other)
        assert requirements.blocked == {"ann", "bob"}


def test_a_warning_does_not_block() -> None:
    requirements = Requirements()
    requirements.report_blocking("ann", [warning("w", "careful")])
    assert requirements.blocked == set()
    requirements.report_blocking("ann", [Problem("e", "wrong")])
    assert requirements.blocked == {"ann"}
    assert [problem.code for problem in requirements.problems["ann"]] == ["w", "e"]
