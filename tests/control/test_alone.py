"""A city has one controller, whatever becomes of the files that say so."""

import os

from gascity.control.client import controller_state, send_request
from gascity.model.work import DONE
from tests.support.running import RunningCity


def test_a_controller_whose_lock_was_deleted_leaves_to_the_next(awake: RunningCity) -> None:
    first = awake.pid
    id = awake.sling(f"while [ ! -e {awake.root}/go ]; do sleep 0.02; done")
    awake.running(id)
    (awake.root / ".gc/controller.lock").unlink()
    assert not controller_state(str(awake.root)).running
    assert awake.run("start").code == 0
    awake.until(lambda: controller_state(str(awake.root)).pid not in (None, first))
    awake.until(lambda: not os.path.exists(f"/proc/{first}/fd/0"))
    awake.until(lambda: send_request(str(awake.root), {"op": "ping"}) == {"pid": awake.pid})
    (awake.root / "go").touch()
    [work] = awake.settled(id)
    assert (work.status, work.attempts) == (DONE, 1)


def test_a_log_that_cannot_be_written_is_named(town: RunningCity) -> None:
    (town.root / ".gc/logs/controller.log").mkdir(parents=True)
    ran = town.run("start")
    assert (ran.code, "controller.log: Is a directory" in ran.err) == (1, True)
