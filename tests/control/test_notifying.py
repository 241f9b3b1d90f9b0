"""Notifications of a real controller: they are sent, and never delay a run."""

import json
import re

from tests.support.running import POOL, RunningCity
from tests.support.trees import build_tree

WRONG = """\
safe_citys = []
[notify]
on = ["failing"]
min_interval = "soon"
webhook = "chat.example.org/hook"
"""


def test_work_that_another_process_fails_is_notified(town: RunningCity) -> None:
    command = f'[notify]\ncommand = ["sh", "-c", "cat > {town.root}/got.new; mv got.new got"]\n'
    town.write({"city.toml": f"{command}{POOL.format(1)}"})
    town.start()
    id = town.sling("# Lift the anchor\nsleep 60")
    town.running(id)
    assert town.run("work", "fail", id, "--reason", "no wind").code == 0
    town.until((town.root / "got").exists)
    sent = json.loads((town.root / "got").read_text())
    assert (sent["type"], sent["subject"]) == ("work.failed", id)
    assert sent["text"] == f"{id} failed: Lift the anchor (no wind)"


def test_a_notification_that_hangs_delays_neither_runs_nor_the_end(town: RunningCity) -> None:
    script = f"echo $$ >> {town.root}/pids; sleep 600"
    hang = f'[notify]\non = ["done"]\ncommand = ["sh", "-c", "{script}"]\n'
    town.write({"city.toml": f"{hang}{POOL.format(2)}"})
    town.start()
    town.settled(town.sling("echo one"))
    pids = town.root / "pids"
    town.until(lambda: pids.exists() and pids.read_text())
    [second] = town.settled(town.sling("echo two"))
    assert second.status == "done"
    assert town.stop().code == 0
    town.until(lambda: not any(_runs(int(pid)) for pid in pids.read_text().split()))


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_start_reports_every_mistake_in_the_users_config(town: RunningCity) -> None:
    config = build_tree(town.root.parent / "config", {"gascity/config.toml": WRONG})
    ran = town.run("start", env={"XDG_CONFIG_HOME": str(config)})
    assert ran.code == 0
    found = re.findall(r"config\.toml:(\d+):\d+: error: .*\[([a-z-]+)\]", ran.err)
    codes = ["unknown-key", "bad-value", "bad-duration", "bad-url"]
    assert found == list(zip("1345", codes, strict=True))


def test_notifications_can_be_turned_on_while_the_controller_runs(town: RunningCity) -> None:
    town.start()
    town.settled(town.sling("echo before"))
    command = f'[notify]\non = ["done"]\ncommand = ["sh", "-c", "cat > {town.root}/got"]\n'
    town.write({"city.toml": f"{command}{POOL.format(1)}"})
    assert town.run("reload").code == 0
    [after] = town.settled(town.sling("echo after"))
    town.until(lambda: (town.root / "got").exists() and (town.root / "got").read_text())
    assert json.loads((town.root / "got").read_text())["subject"] == after.id
