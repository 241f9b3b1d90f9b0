"""Terminals that start again: with their conversation, or without if it never began."""

import shutil
from pathlib import Path

import pytest

from tests.support.running import RunningCity

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

CITY = """\
[providers.talker]
command = "sh"
args = ["-c", 'echo "$@" >> ../calls; exec cat', "talker"]
prompt_mode = "none"
interactive = true
resume_flag = "--resume"
session_id_flag = "--session-id"
env = {{ TALKER_HOME = "{home}" }}

[providers.talker.conversation]
home_env = "TALKER_HOME"
file = "*/{{id}}.jsonl"
pattern = "answer"
"""


def test_a_conversation_that_never_began_starts_fresh_and_one_that_did_is_resumed(
    town: RunningCity, tmp_path: Path
) -> None:
    home = tmp_path / "talker"
    (home / "project").mkdir(parents=True)
    agent = {"agents/chat/agent.toml": 'provider = "talker"\n', "agents/chat/prompt.md": "Talk.\n"}
    town.write({"city.toml": CITY.format(home=home), **agent})
    calls = town.root / ".gc/work/calls"

    def started(times: int) -> list[list[str]]:
        town.until(lambda: calls.exists() and len(calls.read_text().splitlines()) == times)
        return [line.split() for line in calls.read_text().splitlines()]

    def again() -> None:
        assert town.run("session", "stop", "pal").code == 0
        assert town.run("session", "wake", "pal").code == 0

    assert town.run("session", "new", "chat", "--name", "pal").code == 0
    [(flag, first)] = started(1)
    (home / "project" / f"{first}.jsonl").write_text("question\n")
    again()
    (flag_2, second) = started(2)[1]
    assert (flag, flag_2) == ("--session-id", "--session-id")
    assert first != second
    (home / "project" / f"{second}.jsonl").write_text("question\nanswer\n")
    town.until(lambda: [one.conversation for one in town.sessions()] == [second])
    again()
    assert started(3)[2] == ["--resume", second]
