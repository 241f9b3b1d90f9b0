"""Jobs that run beside the loop."""

import select
import threading
from types import SimpleNamespace
from typing import cast

from gascity.control.live_state import LiveState
from gascity.control.loop import Controller
from gascity.control.workers import Workers


def call_back(workers: Workers, got: list[object], count: int) -> None:
    while len(got) < count:
        select.select([workers.fd], [], [])
        for callback in workers.collect():
            callback()
    workers.close()


def test_a_callback_gets_the_result_or_the_exception_of_its_job() -> None:
    workers, results, errors = Workers(), list[object](), list[object]()
    workers.put(lambda: 7, results.append, errors.append)
    call_back(workers, results, 1)
    assert (results, errors) == ([7], [])
    workers = Workers()
    workers.put(lambda: 1 // 0, results.append, errors.append)
    call_back(workers, errors, 1)
    assert results == [7]
    assert [type(error) for error in errors] == [ZeroDivisionError]


def test_jobs_that_were_put_before_forget_are_never_collected() -> None:
    workers, may_end, got = Workers(1), threading.Event(), list[object]()
    begun = threading.Event()
    workers.put(lambda: (begun.set(), may_end.wait()), got.append, got.append)
    workers.put(lambda: "queued", got.append, got.append)
    begun.wait()
    workers.forget()
    workers.put(lambda: "new", got.append, got.append)
    may_end.set()
    call_back(workers, got, 1)
    assert got == ["new"]


def test_a_quarter_of_the_finished_jobs_is_collected_at_a_time() -> None:
    workers, begun, may_end = Workers(1), threading.Event(), threading.Event()
    for number in range(8):
        workers.put(lambda number=number: number, print, print)  # type: ignore[misc]
    workers.put(lambda: (begun.set(), may_end.wait()), print, print)
    begun.wait()  # in the same thread, after all others
    counts = []
    while select.select([workers.fd], [], [], 0)[0]:
        counts.append(len(workers.collect()))
    assert counts == [2, 2, 1, 1, 1, 1]
    may_end.set()
    workers.close()


def test_a_quarter_of_the_runs_that_ended_is_recorded_in_a_round() -> None:
    controller = Controller.__new__(Controller)
    controller.live = cast(LiveState, SimpleNamespace(ended=[]))
    assert controller._next_ended(list("abcdefgh")) == ["a", "b"]
    assert controller._next_ended(["i"]) == ["c", "d"]
    rest = [controller._next_ended([]) for _ in range(5)]
    assert rest == [["e", "f"], ["g"], ["h"], ["i"], []]
