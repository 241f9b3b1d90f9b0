"""Logs that stay within a bound."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gascity.runtimes import logs
from gascity.runtimes.logs import bound, cut_line, read_log, tail

LIMIT = 64 * 1024
LINE = b"%09d what a run has said\n"


def numbered(count: int, first: int = 0) -> bytes:
    return b"".join(LINE % number for number in range(first, first + count))


def room(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.log"


@pytest.fixture
def no_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot make any."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no holes here")

    monkeypatch.setattr(logs, "_punch", refuse)


def test_a_log_within_its_bound_is_left_alone(log: Path) -> None:
    log.write_bytes(numbered(1000))
    assert bound(str(log), LIMIT) == 0
    assert log.read_bytes() == numbered(1000)
    assert b"".join(read_log(str(log))) == numbered(1000)


def test_a_log_that_is_not_there_yet_is_within_its_bound(log: Path) -> None:
    assert bound(str(log), LIMIT) == 0
    assert tail(str(log), 5) == ""


def test_the_middle_of_a_long_log_is_cut_out_and_its_ends_are_kept(log: Path) -> None:
    whole = numbered(20_000)
    log.write_bytes(whole)
    gone = bound(str(log), LIMIT)
    assert room(log) <= LIMIT
    assert log.stat().st_size == len(whole)
    text = b"".join(read_log(str(log)))
    head, line, rest = text.partition(cut_line(gone))
    assert line
    assert whole.startswith(head.removesuffix(b"\n"))
    assert whole.endswith(rest)
    assert len(head.removesuffix(b"\n")) >= LIMIT // 4
    assert len(rest) >= LIMIT // 2
    assert len(head.removesuffix(b"\n")) + gone + len(rest) == len(whole)


def test_whoever_writes_a_log_goes_on_where_he_was(log: Path) -> None:
    with log.open("ab", buffering=0) as writer:
        total = lost = 0
        for _ in range(30):
            writer.write(numbered(1000, first=total))
            total += 1000
            lost += bound(str(log), LIMIT)
            assert room(log) <= LIMIT
    text = b"".join(read_log(str(log)))
    assert text.count(b"bytes cut out") == 1
    assert cut_line(lost) in text
    assert text.endswith(LINE % (total - 1))
    assert b"\0" not in text


def test_a_second_look_at_a_log_that_did_not_grow_cuts_nothing(log: Path) -> None:
    log.write_bytes(numbered(20_000))
    assert bound(str(log), LIMIT) > 0
    before = log.read_bytes()
    assert bound(str(log), LIMIT) == 0
    assert log.read_bytes() == before


def test_a_log_that_was_cut_may_grow_to_its_bound_again(log: Path) -> None:
    log.write_bytes(numbered(20_000))
    assert bound(str(log), LIMIT) > 0
    with log.open("ab") as writer:
        writer.write(b"x" * (LIMIT // 8))
    assert bound(str(log), LIMIT) == 0


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(1, 6000), st.booleans()), min_size=1, max_size=6))
def test_what_is_read_and_what_was_cut_are_together_what_was_written(
    log: Path, steps: list[tuple[int, bool]]
) -> None:
    log.write_bytes(b"")
    written = lost = 0
    for lines, looked in steps:
        with log.open("ab") as writer:
            writer.write(numbered(lines, first=written))
        written += lines
        lost += bound(str(log), LIMIT) if looked else 0
    kept = b"".join(read_log(str(log)))
    note = len(cut_line(lost)) if lost else 0
    added = len(kept) - note + lost - len(numbered(written))
    assert added in ((0, 1) if lost else (0,))  # the end of a line that was cut in two


@pytest.mark.usefixtures("no_holes")
def test_where_no_hole_can_be_made_all_behind_the_beginning_goes(log: Path) -> None:
    whole = numbered(20_000)
    with log.open("ab", buffering=0) as writer:
        writer.write(whole)
        gone = bound(str(log), LIMIT)
        writer.write(b"more\n")
    assert room(log) <= LIMIT
    text = b"".join(read_log(str(log)))
    head, _, rest = text.partition(b"\n" + cut_line(gone))
    assert rest == b"more\n"
    assert whole.startswith(head)
    assert len(head) + gone == len(whole)


def test_another_fault_of_the_disk_is_told(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(logs, "_punch", fail)
    log.write_bytes(numbered(20_000))
    with pytest.raises(OSError, match="broken"):
        bound(str(log), LIMIT)
    assert log.read_bytes() == numbered(20_000)


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_a_tail_is_the_last_lines(log: Path, lines: int) -> None:
    log.write_bytes(b"one\ntwo\nthree\nfour\n")
    assert tail(str(log), lines).splitlines() == ["one", "two", "three", "four"][4 - lines :]


def test_a_tail_of_more_lines_than_there_are_is_all(log: Path) -> None:
    log.write_bytes(b"one\ntwo")
    assert tail(str(log), 50) == "one\ntwo"


def test_a_tail_does_not_reach_into_what_was_cut_out(log: Path) -> None:
    log.write_bytes(numbered(20_000))
    bound(str(log), LIMIT)
    text = tail(str(log), 20_000)
    assert "\0" not in text
    assert text.endswith((LINE % 19_999).decode())
    assert len(text) >= LIMIT // 2


def test_a_tail_of_a_log_of_one_endless_line_is_bounded(log: Path) -> None:
    log.write_bytes(b"x" * 1_000_000 + b"end")
    text = tail(str(log), 1)
    assert text.endswith("xend")
    assert len(text) < 500_000


def test_a_log_without_an_end_of_line_and_with_odd_bytes_can_be_read(log: Path) -> None:
    log.write_bytes(b"\xff\xfe\0 odd")
    assert tail(str(log), 1) == "\ufffd\ufffd\0 odd"
    assert list(read_log(str(log))) == [b"\xff\xfe\0 odd"]


def test_an_empty_log_has_no_lines(log: Path) -> None:
    log.touch()
    assert list(read_log(str(log))) == []
    assert tail(str(log), 3) == ""
    os.truncate(log, 8192)  # nothing but a hole
    assert tail(str(log), 3) == ""
