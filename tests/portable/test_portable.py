"""Behaviour of the portable adapter alone, and how it is chosen."""

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gascity import host, sockets
from gascity.portable import processes
from gascity.portable.locks import HolderLock, read_holder
from gascity.portable.watch import PollingWatch
from gascity.store import open_store
from tests.support.command import Command


@pytest.mark.linux
def test_linux_needs_no_portable_module() -> None:
    """Importing psutil and filelock takes longer than most commands."""
    script = """
import sys, tempfile
import gascity.control.loop, gascity.cli.sling, gascity.runtimes
from gascity.control.poll import open_poll
from gascity.control.server import acquire_lock
from gascity.store import open_store
from gascity.watch import open_watch
with tempfile.TemporaryDirectory() as root:
    acquire_lock(root).release()
    open_store(root).subscribe()
    gascity.runtimes.open_runtime("process", root, {}).strays(root, ())
open_poll(), open_watch()
print([name for name in sys.modules if name.startswith(("psutil", "filelock", "gascity.portable"))])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.portable
def test_the_calls_of_linux_are_gone_here_and_in_every_child() -> None:
    assert not hasattr(os, "pidfd_open")
    script = (
        "import os, select; from gascity.ancestry import lineage, _read;"
        "print(hasattr(os, 'pidfd_open'), hasattr(select, 'epoll'), hasattr(os, 'O_PATH'),"
        " _read(os.getpid(), 'stat'), len(lineage(os.getpid())) > 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False False b'' True\n"


@pytest.mark.parametrize(("platform", "portable"), [("darwin", True), ("freebsd14", True)])
def test_other_systems_than_linux_use_the_portable_adapter(
    monkeypatch: pytest.MonkeyPatch, platform: str, portable: bool
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert host.is_portable() == portable
    assert host.unsupported() == ""


@pytest.mark.linux
@pytest.mark.parametrize("call", ["O_PATH", "pidfd_open"])
def test_a_python_without_a_call_of_linux_uses_the_portable_adapter(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    assert not host.is_portable()
    monkeypatch.delattr(os, call)
    assert host.is_portable()


def test_windows_gets_one_sentence_before_anything_starts(program: Command, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.platform = 'win32'\n")
    done = program("status", env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "WSL" in done.err


class _MacSocket:
    """A connection as macOS describes it."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert level == 0
        answers = {1: struct.pack("IIh2x16I", 0, 501, 2, *range(16)), 2: struct.pack("i", 4711)}
        assert len(answers[option]) == size
        return answers[option]


def test_the_peer_of_a_socket_is_known_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sockets.peer_of(_MacSocket()) == (4711, 501)  # type: ignore[arg-type]


@pytest.mark.portable
def test_the_socket_of_a_dead_subscriber_is_removed(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    wakeups = store.subscribe()
    stale = Path(sockets.socket_directory(f"{tmp_path}/.gc/run/wakeups")) / "1-1"
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    line.bind(str(stale))
    line.close()
    store.set_note("a", "b")
    assert not stale.exists()
    assert wakeups.recheck  # a writer that is killed after its commit sends no message
    wakeups.close()
    store.close()


@pytest.mark.portable
def test_a_lock_that_a_killed_process_left_names_nobody_who_has_its_pid_now(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with subprocess.Popen(["sleep", "1000"]) as other:
        lock = HolderLock(path)
        holder = Path(f"{path}.holder")
        _, since, started, inode = holder.read_text().split()
        lock.release()
        holder.write_text(f"{other.pid} {since} {started} {inode}\n")
        assert read_holder(path) is None
        holder.write_text(f"{other.pid} {since} {processes.start_time(other.pid)} {inode}\n")
        assert read_holder(path) == (other.pid, float(since))
        other.kill()


@pytest.mark.portable
def test_the_holder_of_a_deleted_lock_does_not_hide_the_next_one(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first = HolderLock(path)
    os.unlink(path)
    assert read_holder(path) is None
    second = HolderLock(path)
    text = Path(f"{path}.holder").read_text()
    first.release()
    assert Path(f"{path}.holder").read_text() == text
    second.release()
    assert not os.path.exists(f"{path}.holder")


@pytest.mark.portable
def test_a_signal_never_reaches_a_later_process_with_the_same_pid() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        started = processes.start_time(other.pid)
        processes.signal_process(other.pid, started - 1, signal.SIGKILL)
        assert other.communicate(b"here\n")[0] == b"here\n"
    processes.signal_process(other.pid, started, signal.SIGKILL)


def test_a_thread_notices_changes_without_being_asked(tmp_path: Path) -> None:
    import select

    watch = PollingWatch()
    watch.add(str(tmp_path))
    (tmp_path / "a").write_text("x")
    assert select.select([watch.fd], [], [], 30)[0]
    assert watch.read() == {f"{tmp_path}/a"}
    watch.close()


def test_a_change_inside_a_directory_is_not_a_change_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    watch = PollingWatch()
    watch.add(str(tmp_path))
    (tmp_path / "below" / "file").write_text("x")
    watch.look()
    assert watch.read() == set()
    watch.close()
