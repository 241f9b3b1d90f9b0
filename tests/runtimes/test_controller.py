"""The controller needs nothing but the ports: it works with a store and a runtime in memory."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity.cli.context import machine
from gascity.control.loop import Controller
from gascity.control.server import acquire_lock
from gascity.model.work import DONE, FAILED, FINISHED, NewWork
from tests.runtimes.bench import until
from tests.runtimes.memory import Machine, MemoryRuntime
from tests.store.memory import Memory, MemoryStore
from tests.support.trees import build_tree


@pytest.fixture
def restored_signals() -> Iterator[None]:
    """The controller sets handlers for its process, which here is that of the tests."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored_signals")
def test_a_controller_runs_work_in_memory(tmp_path: Path) -> None:
    root = build_tree(tmp_path / "city", {"city.toml": ""})
    memory, machine_in_memory, log = Memory(), Machine(), list[str]()
    client = MemoryStore(memory)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    first = client.add_work(NewWork("shell", "one", "echo hello; exit 0"), time.time()).id
    lock = acquire_lock(str(root))
    controller = Controller(
        str(root),
        environ,
        MemoryStore(memory),
        {"process": MemoryRuntime(machine_in_memory)},
        machine,
        log.append,
    )
    statuses: dict[str, str] = {}

    def add_more_work_then_stop() -> None:
        def finished(id: str) -> bool:
            work = client.work(id)
            statuses[id] = work.status if work else ""
            return statuses[id] in FINISHED

        try:
            until(lambda: finished(first), "the first item is done")
            # Added while the controller sleeps: only the store's wake-up can tell it.
            new = NewWork("shell", "two", "echo again; exit 1")
            second = client.add_work(new, time.time()).id
            until(lambda: finished(second), "the second item has failed")
        finally:
            controller.exit("stop")
            client.set_note("wake", "up")

    thread = threading.Thread(target=add_more_work_then_stop)
    thread.start()
    controller.run()
    thread.join()
    lock.release()

    assert list(statuses.values()) == [DONE, FAILED], log
    assert [run.pid for run in client.runs()] == [0] * len(client.runs())
    work = client.work(first)
    assert work
    assert work.result
    assert work.result.summary == "hello"
    assert machine_in_memory.texts[work.log] == b"hello\n"
    assert not Path(work.log).exists()
    assert not (root / ".gc" / "city.db").exists()
