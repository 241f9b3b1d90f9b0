"""The live values of HUD sections come from git, the store, files and commands."""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gascity.hud import commands, data
from gascity.hud.context import usage_of
from gascity.hud.in_prompt import render_sections
from gascity.hud.sections import agent_sections
from gascity.model.session_context import Machine, SessionContext
from gascity.model.work import POOL, RUNNING, NewWork, Run, Session
from gascity.prompts import Prompts
from gascity.render.hud import RenderedSection
from gascity.source.disk import Disk
from gascity.store import open_store
from tests.support.city import CityBuilder, agent_of

AGENT = {"agents/mayor/agent.toml": "", "agents/mayor/prompt.template.md": '{{ template "hud" . }}'}
DATE = Machine("linux", "2026-01-01")


class Town:
    """A city with an agent, whose sections are rendered."""

    def __init__(self, city: CityBuilder) -> None:
        self.city = city
        self.root = city.root
        city.write({"city.toml": "", **AGENT})

    def write(self, files: Mapping[str, str], mode: int = 0o755) -> None:
        for path in self.city.write(files) and files:
            (self.root / path).chmod(mode)

    def render(self, name: str = "mayor", session: str = "") -> dict[str, RenderedSection]:
        opened = self.city.open()
        agent = agent_of(opened, name)
        prompts = Prompts(opened, Disk(opened.root), DATE, live=os.environ)
        scene = SessionContext(work_dir=str(self.root), id=session)
        found = agent_sections(prompts, agent).sections
        return {each.section.name: each for each in render_sections(prompts, agent, scene, found)}

    def text(self, body: str, front: str = "priority: 1", **options: str) -> RenderedSection:
        self.city.write({"hud/x.template.md": f"---\n{front}\n---\n{body}"})
        return self.render(**options)["x"]


@pytest.fixture
def town(city: CityBuilder) -> Town:
    return Town(city)


def git(root: Path, *arguments: str) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *identity, *arguments], cwd=root, env=environ, check=True)


GIT = (
    "{{ if .Git }}{{ .Git.Branch }} {{ .Git.Changed }} {{ .Git.Ahead }} {{ .Git.Behind }} "
    "{{ .Git.LastCommit }}{{ else }}no repository{{ end }}"
)


def test_git_values_are_those_of_the_working_directory(town: Town) -> None:
    assert town.text(GIT).text == "no repository"
    git(town.root, "init", "-qb", "main")
    (town.root / ".gitignore").write_text("*\n!seen\n")
    assert town.text(GIT).text == "main 0 0 0"
    (town.root / "seen").write_text("1")
    git(town.root, "add", "seen")
    assert town.text(GIT).text == "main 1 0 0"
    git(town.root, "commit", "-qm", "Add it")
    assert town.text(GIT).text.startswith("main 0 0 0 ")
    assert town.text(GIT).text.endswith(" Add it")


def test_tasks_pool_and_mail_come_from_the_store(town: Town) -> None:
    body = (
        "{{ range .Tasks }}{{ .ID }} {{ .Title }} {{ .Status }} {{ .Priority }};{{ end }} "
        "{{ .TaskCounts.Queued }} {{ .TaskCounts.Done }} {{ .Mail.Unread }}"
        "{{ range .Pool }} {{ .Agent }}={{ .Live }}/{{ .Max }}+{{ .Queued }}{{ end }}"
    )
    city_file = '[agent_defaults]\nmax_active_sessions = 2\n[workspace]\nprovider = "claude"\n'
    town.city.write({"city.toml": city_file, "agents/ghost/agent.toml": "hidden = true\n"})
    agents = '[agents_filter]\nallow = ["mayor", "ghost"]\n'
    town.city.write({"agents/mayor/agent.toml": agents})
    assert town.text(body).text == " 0 0 0 mayor=0/2+0"
    store = open_store(str(town.root))
    now = time.time()
    store.add_work(NewWork("mayor", "Later", "Later", priority=3), now)
    store.add_work(NewWork("mayor", "First", "First", priority=1), now)
    store.add_work(NewWork("ghost", "Other", "Other"), now)
    store.send_mail("human", "mayor", "a", "b", now)
    store.close()
    assert town.text(body).text == "w-2 First queued 1;w-1 Later queued 3; 2 0 1 mayor=0/2+2"


def test_files_are_read_from_the_working_directory_and_never_from_outside(
    town: Town, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("# Secret\n")
    town.city.write({"tasks/a.md": "# One\n\ntext\n", "tasks/b.md": "plain\n", "tasks/c.txt": ""})
    (town.root / "tasks/link.md").symlink_to(tmp_path / "secret.md")
    (town.root / "tasks/bin.md").write_bytes(b"\0\1")
    os.mkfifo(town.root / "tasks/pipe.md")
    body = "{{ range .Files }}{{ .Path }}={{ .Title }};{{ end }}"
    made = town.text(body, 'data-sources: ["file:tasks/*.md"]')
    assert made.text == "tasks/a.md=One;tasks/b.md=b.md;"
    assert town.text(body, 'data-sources: ["file:.gc/*", "file:city.tom?"]').text.startswith("city")


def test_files_are_limited_in_size(town: Town) -> None:
    town.city.write({f"tasks/{n}.md": "x" * 40_000 for n in range(5)})
    body = "{{ range .Files }}{{ len .Text }} {{ end }}"
    assert town.text(body, 'data-sources: ["file:tasks/*.md"]').text == "40000 25536"


COMMAND = "data-sources: [command:assets/t.sh]"


def test_the_output_of_a_command_is_text_or_the_value_of_its_json(town: Town) -> None:
    town.write({"assets/t.sh": '#!/bin/sh\necho "$CITY_ROOT" "$PWD"\n'})
    assert town.text("{{ .Command }}", COMMAND).text == f"{town.root} {town.root}"
    town.write({"assets/t.sh": "#!/bin/sh\necho '{\"a\": [1, 99999999999999999999999]}'\n"})
    body = "{{ range .Command.a }}{{ . }};{{ end }}"
    assert town.text(body, COMMAND).text == "1;99999999999999999999999;"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sleep 600", "did not end within"),
        (r"printf '\000'", "printed binary data"),
        ("exit 1", "exited with 1"),
    ],
)
def test_a_failed_command_keeps_its_last_value_with_its_age(
    town: Town, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    monkeypatch.setattr(commands, "TIMEOUT", 0.3 if "sleep" in script else 30.0)
    body = "{{ .Command }}{{ if .Age }} (old){{ end }}"
    town.write({"assets/t.sh": "#!/bin/sh\n" + script})
    made = town.text("a{{ .Command }}", COMMAND)
    assert made.text == ""
    assert [problem.code for problem in made.problems] == ["hud-source-failed", "template-failed"]
    monkeypatch.setattr(commands, "TIMEOUT", 30.0)
    town.write({"assets/t.sh": "#!/bin/sh\necho 3 passed\n"})
    fresh = town.text(body, COMMAND)
    assert (fresh.text, fresh.age, fresh.problems) == ("3 passed", 0, ())
    monkeypatch.setattr(commands, "TIMEOUT", 0.3 if "sleep" in script else 30.0)
    town.write({"assets/t.sh": "#!/bin/sh\n" + script})
    kept = town.text(body, COMMAND)
    assert (kept.text, kept.age > 0) == ("3 passed (old)", True)
    [problem] = kept.problems
    assert (problem.code, problem.is_error) == ("hud-source-failed", False)
    assert message in problem.message
    assert "showing the value of" in problem.message


@pytest.mark.parametrize(
    ("files", "mode", "message"),
    [
        ({}, 0o755, "does not exist"),
        ({"assets/t.sh": "#!/bin/sh\necho\n"}, 0o644, "is not executable"),
    ],
)
def test_a_command_that_cannot_run_is_an_error(
    town: Town, files: Mapping[str, str], mode: int, message: str
) -> None:
    town.write(files, mode)
    [problem, *_] = town.text("{{ if .Command }}x{{ end }}", COMMAND).problems
    assert (problem.code, problem.is_error) == ("bad-hud", True)
    assert message in problem.message


def test_a_command_outside_its_pack_never_runs(town: Town, tmp_path: Path) -> None:
    program = tmp_path / "outside.sh"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    (town.root / "assets").mkdir()
    (town.root / "assets/t.sh").symlink_to(program)
    made = town.text("a{{ if .Command }}{{ .Command }}{{ end }}", COMMAND)
    assert made.text == "a"
    assert "is outside its pack" in made.problems[0].message


def test_a_command_of_a_pack_that_is_not_accepted_does_not_run(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gascity.hud import sections

    packs = sections.packs_of
    monkeypatch.setattr(
        sections, "packs_of", lambda city: [pack._replace(accepted=False) for pack in packs(city)]
    )
    town.write({"assets/t.sh": "#!/bin/sh\ntouch ran\n"})
    made = town.text("a{{ if .Command }}b{{ end }}", COMMAND)
    assert made.text == "a"
    assert [problem.code for problem in made.problems] == ["not-accepted"]
    assert not (town.root / "ran").exists()


# Context


@pytest.mark.parametrize(
    ("percentage", "status"),
    [(0, "Green"), (69, "Green"), (70, "Yellow"), (85, "Red"), (92, "Critical"), (100, "Critical")],
)
def test_the_status_of_the_context_follows_its_percentage(percentage: int, status: str) -> None:
    values = usage_of(percentage * 10, 1000)
    assert values["Percentage"] == percentage
    assert [name for name, holds in values["Status"].items() if holds] == [status]


def test_without_a_known_limit_only_the_tokens_are_known() -> None:
    assert usage_of(5, None) == {"Tokens": 5}


ANSWER = (
    '{"type":"assistant","session_id":"%s","message":{"content":[],"usage":'
    '{"input_tokens":3,"cache_read_input_tokens":149990,"output_tokens":7}}}\n'
)


@pytest.fixture
def run_log(town: Town) -> Path:
    log = town.root / ".gc/run.log"
    town.city.write({"city.toml": '[workspace]\nprovider = "claude"\n'})
    store = open_store(str(town.root))
    values: dict[str, Any] = {"created": 0.0, "updated": 0.0, "conversation": "talk"}
    store.add_session(Session("s1", "mayor", POOL, 1, "mayor-1", RUNNING, "", **values))
    store.add_run(Run(0, "s1", 1, "", "process", 0.0, str(log), ""))
    store.close()
    return log


def test_the_context_is_known_after_the_first_answer_of_the_conversation(
    town: Town, run_log: Path
) -> None:
    body = "{{ if .Context }}{{ .Context.Tokens }} {{ .Context.Percentage }}{{ else }}?{{ end }}"
    assert town.text(body, session="s1").text == "?"
    run_log.write_text(ANSWER % "another")
    assert town.text(body, session="s1").text == "?"
    run_log.write_text(ANSWER % "talk")
    assert town.text(body, session="s1").text == "150000 75"
    collapsing = "collapse-threshold: 75"
    assert town.text("## A\nb", collapsing, session="s1").text == "## A\nb"
    assert town.text("## A\nb", collapsing).text == "## A"


def test_a_source_is_asked_once_for_all_sections(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(data, "bounded_output", lambda *a: calls.append(a) or ("1", False))
    town.write({"assets/t.sh": "#!/bin/sh\n"})
    text = f"---\n{COMMAND}\n---\n{{{{ .Command }}}}"
    town.city.write({"hud/a.template.md": text, "hud/b.template.md": text})
    made = town.render()
    assert (made["a"].text, made["b"].text, len(calls)) == ("1", "1", 1)
