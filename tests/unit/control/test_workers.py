"""Jobs beside the loop."""

import select
import threading

from gascity.control.workers import Workers


def test_results_come_with_what_is_to_happen_with_them() -> None:
    workers, got = Workers(), list[object]()
    workers.put(lambda: 7, got.append)
    workers.put(lambda: 1 // 0, got.append)
    while len(got) < 2:
        select.select([workers.fd], [], [])
        for then, result in workers.collect():
            then(result)
    workers.close()
    assert 7 in got
    assert any(isinstance(one, ZeroDivisionError) for one in got)


def test_what_was_put_before_everything_was_forgotten_is_never_collected() -> None:
    workers, going, got = Workers(1), threading.Event(), list[object]()
    begun = threading.Event()
    workers.put(lambda: (begun.set(), going.wait()), got.append)
    workers.put(lambda: "waiting", got.append)
    begun.wait()
    workers.forget()
    workers.put(lambda: "new", got.append)
    going.set()
    while not got:
        select.select([workers.fd], [], [])
        for then, result in workers.collect():
            then(result)
    workers.close()
    assert got == ["new"]
