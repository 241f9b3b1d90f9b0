"""One contract for the adapter of Linux and the portable one: each test runs with both."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.control.client import controller_state
from gascity.control.poll import open_poll
from gascity.control.server import acquire_lock
from gascity.host import is_portable
from gascity.model.problems import CityError
from gascity.model.work import NewWork
from gascity.runtimes.process_table import process_table
from gascity.sockets import SocketAddress, make_private, peer_of, socket_directory
from gascity.store import open_store
from tests.runtimes.bench import until
from tests.support.without_linux import ADAPTERS

_HOLDER = """
import signal, sys
from gascity.control.server import acquire_lock
lock = acquire_lock(sys.argv[1])
print("held", flush=True)
signal.pause()
"""


@pytest.fixture(params=ADAPTERS, autouse=True)
def adapter(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    assert is_portable() == (name == "portable")
    return name


# Waiting


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_a_descriptor_is_ready_once_it_can_be_read(pipe: tuple[int, int]) -> None:
    poll = open_poll()
    poll.watch(pipe[0])
    assert poll.wait(0) == set()
    os.write(pipe[1], b"x")
    assert poll.wait(5) == {pipe[0]}
    poll.close()


def test_a_paused_descriptor_is_not_ready_until_it_is_watched_again(pipe: tuple[int, int]) -> None:
    poll = open_poll()
    os.write(pipe[1], b"x")
    poll.watch(pipe[0])
    poll.pause(pipe[0])
    assert poll.wait(0) == set()
    poll.watch(pipe[0])
    assert poll.wait(5) == {pipe[0]}
    poll.close()


def test_a_descriptor_can_be_watched_for_writing_instead() -> None:
    poll = open_poll()
    ours, theirs = socket.socketpair()
    poll.watch(ours.fileno())
    assert poll.wait(0) == set()
    poll.watch(ours.fileno(), writable=True)
    assert poll.wait(5) == {ours.fileno()}
    for end in (ours, theirs):
        end.close()
    poll.close()


def test_a_forgotten_descriptor_can_be_closed_and_its_number_watched_again(
    pipe: tuple[int, int],
) -> None:
    poll = open_poll()
    first = os.dup(pipe[0])
    poll.watch(first)
    poll.forget(first)
    poll.forget(first)
    os.close(first)
    assert poll.wait(0) == set()
    second = os.dup(pipe[0])
    assert second == first
    poll.watch(second)
    os.write(pipe[1], b"x")
    assert poll.wait(5) == {second}
    poll.forget(second)
    os.close(second)
    poll.close()


# The controller's lock


def test_a_lock_names_its_holder_to_others_and_ends_with_it(tmp_path: Path) -> None:
    root = str(tmp_path)
    command = [sys.executable, "-c", _HOLDER, root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        state = controller_state(root)
        assert (state.running, state.pid) == (True, holder.pid)
        assert state.since
        with pytest.raises(CityError, match=rf"already running \(pid {holder.pid}\)"):
            acquire_lock(root)
        assert controller_state(root).running  # asking and failing have changed nothing
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert not controller_state(root).running
    acquire_lock(root).release()


def test_a_released_lock_has_no_holder(tmp_path: Path) -> None:
    acquire_lock(str(tmp_path)).release()
    assert not controller_state(str(tmp_path)).running
    acquire_lock(str(tmp_path)).release()


# Sockets


@pytest.mark.parametrize("deep", ["near", "deep/" * 40])
def test_a_socket_can_be_reached_however_long_its_path_is(tmp_path: Path, deep: str) -> None:
    directory = tmp_path / deep
    directory.mkdir(parents=True)
    place = socket_directory(str(directory))
    make_private(place) if place != str(directory) else None
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with SocketAddress(str(directory), "a.sock") as address:
        server.bind(address)
    server.listen()
    with SocketAddress(str(directory), "a.sock") as address:
        client.connect(address)
    accepted, _ = server.accept()
    assert peer_of(accepted) == (os.getpid(), os.getuid())
    os.unlink(f"{place}/a.sock")
    for line in (server, client, accepted):
        line.close()
    if place != str(directory):
        os.rmdir(place)


def test_a_directory_that_others_can_access_is_not_used_for_sockets(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    with pytest.raises(PermissionError):
        make_private(str(open_to_all))


# Wake-ups after writes to the store


def test_a_write_by_another_process_wakes_a_subscriber(tmp_path: Path) -> None:
    ours, theirs = open_store(str(tmp_path)), open_store(str(tmp_path))
    wakeups = ours.subscribe()
    theirs.add_work(NewWork("shell", "one", "true"), 1.0)
    assert select.select([wakeups.fd], [], [], 5)[0]
    assert ours.changed()
    wakeups.drain()
    assert not select.select([wakeups.fd], [], [], 0)[0]
    wakeups.close()
    theirs.add_work(NewWork("shell", "two", "true"), 1.0)  # no subscriber is left
    ours.close()
    theirs.close()


# Processes


def test_a_process_is_listed_with_the_session_in_its_environment() -> None:
    env = {"CITY_SESSION_ID": "s-1", "CITY_GENERATION": "3", "CITY_ROOT": "/somewhere"}
    table = process_table()
    with subprocess.Popen(["sleep", "1000"], env=env, start_new_session=True) as child:
        until(lambda: table.program_name(child.pid) == "sleep", "it runs")
        try:
            process = table.read_process(child.pid)
            assert process
            assert (process.parent, process.group, process.session) == (
                os.getpid(),
                child.pid,
                child.pid,
            )
            for since in (0, process.ticks):
                [listed] = [one for one in table.list_processes(since) if one.pid == child.pid]
                assert listed.ticks == process.ticks
                assert (listed.owner, listed.generation, listed.root) == ("s-1", 3, "/somewhere")
            assert os.path.samefile(table.directory_of(child.pid), os.getcwd())
        finally:
            child.kill()
    assert table.read_process(child.pid) is None


def test_this_process_is_not_listed() -> None:
    assert os.getpid() not in {process.pid for process in process_table().list_processes()}


def test_inheritable_descriptors_are_listed(pipe: tuple[int, int]) -> None:
    os.set_inheritable(pipe[1], True)
    listed = process_table().inheritable_fds()
    assert pipe[1] in listed
    assert pipe[0] not in listed


def test_nothing_is_missing_on_this_system() -> None:
    assert process_table().missing_requirement() == ""
