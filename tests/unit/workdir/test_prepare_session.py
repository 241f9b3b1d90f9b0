"""A session gets a directory of its own with all that its agent should find there."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gascity.location import IN_PLACE, OWN
from gascity.workdir.prepare_session import PreparedSession
from tests.support.planned_city import SKILL, server
from tests.support.session_workdirs import Quarters
from tests.support.snapshots import picture


@pytest.fixture
def city(tmp_path: Path) -> Quarters:
    return Quarters(tmp_path / "town")


def test_the_first_slot_has_the_directory_that_apply_makes(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "ours\n", "skills/knots/SKILL.md": SKILL.format("knots")})
    city.fine("apply", "mayor")
    before = picture(city.place("work/mayor"))
    done = city.prepare("mayor")
    assert (done.workdir, done.kind) == (str(city.place("work/mayor")), OWN)
    assert (done.branch, done.base, done.env) == ("", "", {})
    assert picture(city.place("work/mayor")) == before
    assert city.steps("mayor") == []


def test_each_slot_has_its_own_directory_with_the_same_content(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "ours\n", "mcp/files.toml": server("files")})
    first, second = (city.prepare("mayor", slot) for slot in (1, 2))
    assert second.workdir == str(city.place("work/mayor~2"))
    assert picture(Path(second.workdir)) == picture(Path(first.workdir))
    assert sorted(picture(Path(second.workdir))) == [".mcp.json", "a"]


def test_a_session_finds_its_own_values_in_its_prompt_and_its_files(city: Quarters) -> None:
    text = "{{ .Session }} in {{ .WorkDir }}\n"
    city.agent("mayor", **{"overlay/who.template.md": text, "prompt.template.md": text})
    (city.root / "agents/mayor/prompt.md").unlink()
    for slot, name in ((1, "mayor"), (2, "mayor~2")):
        done = city.prepare("mayor", slot)
        expected = f"jack-{slot} in {city.place('work')}/{name}\n"
        assert done.prompt == expected
        assert Path(done.workdir, "who.md").read_text() == expected


def test_sessions_that_share_a_place_do_not_fight_over_its_files(city: Quarters) -> None:
    text = "{{ .Session }}\n"
    city.agent(
        "mayor",
        'work_dir = "desk"',
        **{"overlay/who.template.md": text, "prompt.template.md": text},
    )
    (city.root / "agents/mayor/prompt.md").unlink()
    done = [city.prepare("mayor", slot) for slot in (1, 2)]
    assert {(one.workdir, one.kind) for one in done} == {(str(city.root / "desk"), IN_PLACE)}
    assert [one.prompt for one in done] == ["jack-1\n", "jack-2\n"]
    assert (city.root / "desk/who.md").read_text() == "mayor\n"


def test_a_work_dir_with_the_sessions_name_in_it_is_that_sessions_own(city: Quarters) -> None:
    city.agent("mayor", 'work_dir = ".gc/work/by-{{ .Session }}"', **{"overlay/a": "one\n"})
    done = city.prepare("mayor", 2, alias="tom")
    assert done.workdir == str(city.place("work/by-tom"))
    city.write({"agents/mayor/overlay/a": "two\n"})
    city.fine("apply")
    assert Path(done.workdir, "a").read_text() == "two\n"


def test_agents_that_share_a_directory_launch_with_their_own_servers(city: Quarters) -> None:
    for name in ("cat", "dog"):
        city.agent(name, 'work_dir = "desk"', **{f"mcp/{name}s.toml": server(f"{name}s")})
    for name in ("cat", "dog"):
        assert list(handed(city.prepare(name))) == [f"{name}s"]


def test_launches_get_the_servers_of_their_slot(tmp_path: Path) -> None:
    city = Quarters(tmp_path / "town", {".mcp.json": "{}\n"})
    definition = server("files", API_KEY="s3cr3t", HERE="{{ .WorkDir }}")
    city.agent("cat", 'scope = "rig"', **{"mcp/files.template.toml": definition})
    done = [city.prepare("dock/cat", slot, work=f"w-{slot}") for slot in (1, 2)]
    assert [handed(one)["files"]["env"]["HERE"] for one in done] == [one.workdir for one in done]
    assert all("s3cr3t" not in Path(one.workdir, ".mcp.json").read_text() for one in done)
    city.fine("apply")
    assert [handed(one)["files"]["env"]["HERE"] for one in done] == [one.workdir for one in done]


def handed(done: PreparedSession) -> dict[str, Any]:
    """The servers in the file that a launch is handed, which nobody else may read."""
    file = Path(next(word for word in done.launch.args if word.endswith("mcp.json")))
    assert file.stat().st_mode & 0o777 == 0o600
    return dict(json.loads(file.read_text())["mcpServers"])


def test_an_agent_with_an_error_gets_nothing_and_no_session(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a.template.md": "{{ .Nobody }}\n"})
    done = city.try_to_prepare("mayor")
    assert not done.can_start
    assert [problem.code for problem in done.problems] == ["template-failed"]
    assert not city.place("work/mayor/a.md").exists()


def test_no_worktree_is_made_for_an_agent_with_an_error(city: Quarters) -> None:
    city.agent("cat", 'scope = "rig"', **{"overlay/a.template.md": "{{ .Nobody }}\n"})
    done = city.try_to_prepare("dock/cat", work="w-1")
    assert not done.can_start
    assert not city.place("worktrees/dock").exists()


def test_a_skill_that_is_left_out_is_no_reason_not_to_start(city: Quarters) -> None:
    city.agent("mayor", **{"skills/knots/SKILL.md": "---\nname: knots\n---\nNo description.\n"})
    done = city.prepare("mayor")
    assert done.problems == ()


@pytest.mark.parametrize(
    ("settings", "files"),
    [
        pytest.param('[env]\nTIDE = "${NOT_SET}"\n', {}, id="in-env"),
        pytest.param("", {"mcp/files.toml": server("files", KEY="${NOT_SET}")}, id="in-a-server"),
    ],
)
def test_a_variable_that_is_not_set_stops_the_session(
    city: Quarters, settings: str, files: dict[str, str]
) -> None:
    city.agent("mayor", settings, **files)
    done = city.try_to_prepare("mayor")
    assert [(p.code, p.is_error) for p in done.problems] == [("missing-env", True)]
    assert "`NOT_SET`" in done.problems[0].message
    city.environ["NOT_SET"] = "now it is"
    assert city.prepare("mayor").problems == ()


def test_a_prepared_directory_is_current_until_it_changes(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/a": "ours\n", "mcp/files.toml": server("files")})
    done = city.prepare("mayor")
    assert city.is_current("mayor", done)
    Path(done.workdir, "own.txt").write_text("the agent's own\n")
    assert city.is_current("mayor", done)
    Path(done.workdir, ".mcp.json").write_text("{}\n")
    assert not city.is_current("mayor", done)
    done = city.prepare("mayor")
    assert city.is_current("mayor", done)
    Path(done.workdir, "a").unlink()
    assert not city.is_current("mayor", done)


def test_another_preparer_knows_of_no_directory(city: Quarters) -> None:
    city.agent("mayor")
    done = city.prepare("mayor")
    assert city.is_current("mayor", done)
    city.reload()
    assert not city.is_current("mayor", done)


def test_a_worktree_is_current_for_the_same_branch_only(city: Quarters) -> None:
    city.agent("cat", 'scope = "rig"')
    done = city.prepare("dock/cat", work="w-1")
    assert city.is_current("dock/cat", done, work="w-1")
    assert city.is_current("dock/cat", done, work="w-2", resume=True)
    assert not city.is_current("dock/cat", done, work="w-2")
    taken = frozenset((done.workdir,))
    assert not city.is_current("dock/cat", done, work="w-1", taken=taken)


def test_many_threads_may_prepare_sessions_at_once(city: Quarters) -> None:
    files = {f"overlay/{number}.md": "{{ .x }}\n" for number in range(20)}
    city.agent("mayor", **files, **{"overlay/who.template.md": "{{ .Session }}\n"})
    city.agent("cat", 'scope = "rig"', **{"overlay/who.template.md": "{{ .Session }}\n"})
    agents = ("mayor", "dock/cat")
    jobs = [(name, slot) for slot in range(1, 5) for name in agents]
    assert city.preparer is city.preparer  # made before the threads are
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda job: city.prepare(*job, work=f"w-{job[1]}"), jobs))
    assert len({one.workdir for one in done}) == len(jobs)
    for one, (_, slot) in zip(done, jobs, strict=True):
        assert Path(one.workdir, "who.md").read_text() == f"jack-{slot}\n"
    assert len(os.listdir(city.place("work/mayor~3"))) == 21


def test_the_prints_are_those_of_the_agent_and_not_of_the_slot(city: Quarters) -> None:
    city.agent("mayor", **{"overlay/who.template.md": "{{ .Session }} {{ .WorkDir }}\n"})
    first, second = (city.prepare("mayor", slot).fingerprint for slot in (1, 2))
    assert first == second
    assert set(first) == {"prompt", "overlay", "skills", "mcp", "launch"}


def test_every_start_renders_the_hud_again_and_records_what_it_shows(city: Quarters) -> None:
    section = '---\nrefresh: on-event\ndata-sources: ["file:news.md"]\n---\n'
    section += "{{ range .Files }}{{ .Text }}{{ end }}"
    prompt = '{{ template "hud" . }}\n'
    city.agent("mayor", **{"prompt.template.md": prompt, "hud/news.template.md": section})
    (city.root / "agents/mayor/prompt.md").unlink()
    (city.root / "news.md").write_text("Low tide.\n")
    first = city.prepare("mayor")
    assert first.prompt == "Low tide.\n"
    assert not city.is_current("mayor", first)
    (city.root / "news.md").write_text("High tide.\n")
    second = city.prepare("mayor", workdir=first.workdir)
    assert second.prompt == "High tide.\n"
    assert second.fingerprint == first.fingerprint  # live values are no change of the definition
    [state] = (city.root / ".gc/hud").glob("session-*.json")
    assert json.loads(state.read_text()).keys() == {"news"}
