"""Logs as files, and their size limit."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gascity.runtimes import logs
from gascity.runtimes.logs import FileLogs, cut_note

LIMIT = 64 * 1024
LOGS = FileLogs()
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
    """A file system without holes."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no holes here")

    monkeypatch.setattr(logs, "_punch_hole", refuse)


def test_a_log_below_its_limit_is_unchanged(log: Path) -> None:
    log.write_bytes(numbered(1000))
    assert LOGS.truncate(str(log), LIMIT) == 0
    assert log.read_bytes() == numbered(1000)
    assert b"".join(LOGS.read(str(log))) == numbered(1000)


def test_a_missing_log_is_below_its_limit(log: Path) -> None:
    assert LOGS.truncate(str(log), LIMIT) == 0
    assert LOGS.tail(str(log), 5) == ""


@pytest.mark.linux
def test_the_middle_of_a_long_log_is_cut_out(log: Path) -> None:
    whole = numbered(20_000)
    log.write_bytes(whole)
    gone = LOGS.truncate(str(log), LIMIT)
    assert room(log) <= LIMIT
    assert log.stat().st_size == len(whole)
    text = b"".join(LOGS.read(str(log)))
    head, line, rest = text.partition(cut_note(gone))
    assert line
    assert whole.startswith(head.removesuffix(b"\n"))
    assert whole.endswith(rest)
    assert len(head.removesuffix(b"\n")) >= LIMIT // 4
    assert len(rest) >= LIMIT // 2
    assert len(head.removesuffix(b"\n")) + gone + len(rest) == len(whole)


@pytest.mark.linux
def test_a_writer_is_not_disturbed_by_cutting(log: Path) -> None:
    with log.open("ab", buffering=0) as writer:
        total = lost = 0
        for _ in range(30):
            writer.write(numbered(1000, first=total))
            total += 1000
            lost += LOGS.truncate(str(log), LIMIT)
            assert room(log) <= LIMIT
    text = b"".join(LOGS.read(str(log)))
    assert text.count(b"bytes cut out") == 1
    assert cut_note(lost) in text
    assert text.endswith(LINE % (total - 1))
    assert b"\0" not in text


def test_cutting_again_without_growth_cuts_nothing(log: Path) -> None:
    log.write_bytes(numbered(20_000))
    assert LOGS.truncate(str(log), LIMIT) > 0
    before = log.read_bytes()
    assert LOGS.truncate(str(log), LIMIT) == 0
    assert log.read_bytes() == before


def test_a_cut_log_may_grow_to_its_limit_again(log: Path) -> None:
    log.write_bytes(numbered(20_000))
    assert LOGS.truncate(str(log), LIMIT) > 0
    with log.open("ab") as writer:
        writer.write(b"x" * (LIMIT // 8))
    assert LOGS.truncate(str(log), LIMIT) == 0


@pytest.mark.linux
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(1, 6000), st.booleans()), min_size=1, max_size=6))
def test_the_text_read_and_the_bytes_cut_add_up_to_the_text_written(
    log: Path, steps: list[tuple[int, bool]]
) -> None:
    log.write_bytes(b"")
    written = lost = 0
    for lines, looked in steps:
        with log.open("ab") as writer:
            writer.write(numbered(lines, first=written))
        written += lines
        lost += LOGS.truncate(str(log), LIMIT) if looked else 0
    kept = b"".join(LOGS.read(str(log)))
    note = len(cut_note(lost)) if lost else 0
    added = len(kept) - note + lost - len(numbered(written))
    assert added in ((0, 1) if lost else (0,))  # the end of a line that was cut in two


@pytest.mark.usefixtures("no_holes")
def test_without_holes_the_start_and_the_end_stay(log: Path) -> None:
    whole = numbered(20_000)
    with log.open("ab", buffering=0) as writer:
        writer.write(whole)
        gone = LOGS.truncate(str(log), LIMIT)
        writer.write(b"more\n")
    assert room(log) <= LIMIT
    text = b"".join(LOGS.read(str(log)))
    head, _, rest = text.partition(b"\n" + cut_note(gone))
    assert rest.endswith(LINE % 19_999 + b"more\n")
    assert whole.startswith(head)
    assert len(head) + gone + len(rest) - len(b"more\n") == len(whole)


@pytest.mark.usefixtures("no_holes")
def test_who_follows_a_log_continues_after_it_was_cut(log: Path) -> None:
    log.write_bytes(numbered(20_000))
    end = log.stat().st_size
    LOGS.truncate(str(log), LIMIT)
    _, offset = LOGS.read_from(str(log), end)
    with log.open("ab") as writer:
        writer.write(b"more\n")
    assert LOGS.read_from(str(log), offset)[0] == b"more\n"


@pytest.mark.parametrize("blocks", [0, 1 << 20], ids=["not-counted", "kept-behind-the-end"])
def test_the_limit_holds_where_a_file_system_does_not_free_or_count_blocks(
    log: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    def stat(file: int) -> os.stat_result:
        found = list(real(file))
        names = ("st_blksize", "st_blocks")
        extra = {"st_blksize": 4096, "st_blocks": blocks if found[6] > LIMIT else found[6] // 512}
        return os.stat_result(found, {name: extra[name] for name in names})

    real = os.fstat
    with log.open("ab", buffering=0) as writer, monkeypatch.context() as patched:
        patched.setattr(logs.os, "fstat", stat)
        for part in range(4):
            writer.write(numbered(5000, first=part * 5000))
            LOGS.truncate(str(log), LIMIT)
    assert log.stat().st_size <= LIMIT
    assert LOGS.tail(str(log), 1) == (LINE % 19_999).decode()


def test_other_disk_errors_are_raised(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(logs, "_punch_hole", fail)
    log.write_bytes(numbered(20_000))
    with pytest.raises(OSError, match="broken"):
        LOGS.truncate(str(log), LIMIT)
    assert log.read_bytes() == numbered(20_000)


def test_a_file_system_that_does_not_know_holes_has_none(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(numbered(100))
    seek = os.lseek

    def lseek(file: int, offset: int, whence: int) -> int:
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            raise OSError(errno.ENOTTY, "as on HFS+")
        return seek(file, offset, whence)

    monkeypatch.setattr(os, "lseek", lseek)
    assert b"".join(LOGS.read(str(log))) == numbered(100)
    assert LOGS.read_from(str(log), 0) == (numbered(100), len(numbered(100)))
    assert LOGS.read_from(str(log), len(numbered(100))) == (b"", len(numbered(100)))


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_a_tail_is_the_last_lines(log: Path, lines: int) -> None:
    log.write_bytes(b"one\ntwo\nthree\nfour\n")
    assert LOGS.tail(str(log), lines).splitlines() == ["one", "two", "three", "four"][4 - lines :]


def test_a_tail_longer_than_the_log_is_the_whole_log(log: Path) -> None:
    log.write_bytes(b"one\ntwo")
    assert LOGS.tail(str(log), 50) == "one\ntwo"


def test_a_tail_stops_at_a_hole(log: Path) -> None:
    log.write_bytes(numbered(20_000))
    LOGS.truncate(str(log), LIMIT)
    text = LOGS.tail(str(log), 20_000)
    assert "\0" not in text
    assert text.endswith((LINE % 19_999).decode())
    assert len(text) >= LIMIT // 2


def test_a_tail_of_one_very_long_line_is_limited(log: Path) -> None:
    log.write_bytes(b"x" * 1_000_000 + b"end")
    text = LOGS.tail(str(log), 1)
    assert text.endswith("xend")
    assert len(text) < 500_000


def test_a_log_with_invalid_utf8_and_no_newline_can_be_read(log: Path) -> None:
    log.write_bytes(b"\xff\xfe\0 odd")
    assert LOGS.tail(str(log), 1) == "\ufffd\ufffd\0 odd"
    assert list(LOGS.read(str(log))) == [b"\xff\xfe\0 odd"]


def test_an_empty_log_has_no_lines(log: Path) -> None:
    log.touch()
    assert list(LOGS.read(str(log))) == []
    assert LOGS.tail(str(log), 3) == ""
    os.truncate(log, 8192)  # nothing but a hole
    assert LOGS.tail(str(log), 3) == ""
