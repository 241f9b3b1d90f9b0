"""Programs of HUD sections are limited in time and output, and leave nothing running."""

import os
import time
from pathlib import Path

import pytest

from gascity.hud import commands
from gascity.hud.commands import MAX_BYTES, SourceError, bounded_output


def output(*argv: str) -> tuple[str, bool]:
    return bounded_output(argv, "/", os.environ)


def shell(script: str) -> tuple[str, bool]:
    return output("/bin/sh", "-c", script)


def is_gone(pid: int) -> bool:
    """Whether a process has ended: it may still be a zombie of the process that adopted it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_the_output_of_a_program_is_returned() -> None:
    assert shell("echo ok; echo no >&2") == ("ok\n", False)


def test_a_program_that_hangs_is_killed_with_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "TIMEOUT", 0.5)
    pids = tmp_path / "pids"
    with pytest.raises(SourceError, match="did not end within"):
        shell(f"sleep 600 & echo $! > {pids}; echo $$ >> {pids}; cat /dev/zero | sleep 600")
    until = time.monotonic() + 30
    for pid in map(int, pids.read_text().split()):
        while not is_gone(pid):
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_background_process_does_not_delay_the_answer_and_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    assert shell(f"sleep 600 & echo $! > {pids}; echo done") == ("done\n", False)
    until = time.monotonic() + 30
    while not is_gone(int(pids.read_text())):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_program_that_closes_its_output_and_hangs_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "TIMEOUT", 0.3)
    with pytest.raises(SourceError, match="did not end within"):
        shell("exec >&- ; sleep 600")


@pytest.mark.parametrize("script", [r"printf 'a\000b'", r"printf '\377\376'"])
def test_binary_output_is_refused(script: str) -> None:
    with pytest.raises(SourceError, match="printed binary data"):
        shell(script)


def test_more_output_than_allowed_is_cut_and_ends_the_program() -> None:
    text, is_cut = shell("yes é")
    assert is_cut
    assert MAX_BYTES - 2 <= len(text.encode()) <= MAX_BYTES


def test_a_program_that_fails_or_does_not_exist_has_no_value() -> None:
    with pytest.raises(SourceError, match="exited with 3"):
        shell("echo half; exit 3")
    with pytest.raises(SourceError, match="cannot be started"):
        output("/does/not/exist")
