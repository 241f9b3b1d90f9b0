"""A deleted or damaged store is reported, replaced only on request, and restored from a backup."""

import os
import shutil
import time
from pathlib import Path

import pytest

from gascity.control.client import controller_state
from gascity.control.lost_store import check_store
from gascity.model.work import DONE, OPEN
from gascity.store import back_up_store, list_backups, store_exists
from gascity.store.port import StoreError
from tests.support.git import git, repository
from tests.support.running import POOL, RunningCity

READERS = (
    ("status",),
    ("work", "list"),
    ("session", "list"),
    ("mail", "inbox"),
    ("events",),
    ("why", "w-1"),
)


def lose(town: RunningCity, *more: str) -> None:
    town.close()
    for name in ("city.db", "city.db-wal", "city.db-shm", *more):
        (town.root / ".gc" / name).unlink(missing_ok=True)


def ended(town: RunningCity) -> bool:
    return not controller_state(str(town.root)).running


def test_every_command_says_that_the_store_is_missing(town: RunningCity) -> None:
    assert town.run("sling", "shell", "echo hello", "--no-start").code == 0
    lose(town)
    for command in (*READERS, ("sling", "shell", "echo again"), ("start",)):
        ran = town.run(*command)
        assert (ran.code, "[store-missing]" in ran.err or "store-missing" in ran.out) == (1, True)
        assert "city doctor" in ran.err, command
        assert not store_exists(str(town.root)), command
    ran = town.run("restart")
    assert (ran.code, ran.err.count("error:"), "[store-missing]" in ran.err) == (1, 1, True)


def test_the_doctor_calls_no_branch_a_leftover_while_the_store_is_missing(
    town: RunningCity, tmp_path: Path
) -> None:
    path = repository(tmp_path / "shop")
    git(path, "branch", "city/shell/s-1")
    assert town.run("rig", "add", str(path), "--name", "shop").code == 0
    assert town.run("sling", "shell", "echo hello", "--no-start").code == 0
    assert "city/shell/s-1" in town.run("doctor").err
    lose(town)
    ran = town.run("doctor")
    assert "branches" in ran.out
    assert "city/shell/s-1" not in ran.err


def test_a_city_without_work_has_no_store_and_says_nothing(town: RunningCity) -> None:
    assert town.run("apply").code == 0
    for command in READERS[:-1]:
        assert town.run(*command).err == "", command
    assert not store_exists(str(town.root))


def test_logs_of_runs_show_that_there_was_a_store(awake: RunningCity) -> None:
    awake.settled(awake.sling("echo hello"))
    assert awake.stop().code == 0
    lose(awake, "city.lock", "city.db.created")
    with pytest.raises(StoreError, match=r"\.gc/logs/.*\.log is left"):
        check_store(str(awake.root), os.environ)
    shutil.rmtree(awake.root / ".gc")
    check_store(str(awake.root), os.environ)


def test_worktrees_in_a_rig_show_that_there_was_a_store(town: RunningCity, tmp_path: Path) -> None:
    rig = repository(tmp_path / "rig", {"file": "content\n"})
    text = f'{POOL.format(1)}\n[[rigs]]\nname = "rig"\npath = "{rig}"\n'
    town.write({"city.toml": text})
    town.start()
    town.settled(town.sling("true", "rig/shell"))
    assert town.stop().code == 0
    town.close()
    shutil.rmtree(town.root / ".gc")
    ran = town.run("sling", "rig/shell", "true")
    assert (ran.code, "[store-missing]" in ran.err) == (1, True)
    assert "branch city/shell/" in ran.err


def test_a_controller_whose_store_is_deleted_saves_it_and_leaves_sessions_running(
    awake: RunningCity,
) -> None:
    first = awake.sling("echo hello")
    awake.settled(first)
    id = awake.sling(f"while [ ! -e {awake.root}/go ]; do sleep 0.02; done")
    session = awake.running(id)
    lose(awake)
    ran = awake.run("sling", "shell", "echo never")
    assert (ran.code, "[store-missing]" in ran.err) == (1, True)
    awake.until(lambda: ended(awake))
    assert [backup.kind for backup in list_backups(str(awake.root))] == ["rescue"]
    assert Path(f"/proc/{session.pid}").exists()
    ran = awake.run("doctor", "--fix")
    assert (ran.code, "restored the backup" in ran.out) == (0, True), ran
    awake.start()
    (awake.root / "go").touch()
    [work] = awake.settled(id)
    assert (work.status, work.attempts, awake.work(first).status) == (DONE, 1, DONE)


def test_the_doctor_wakes_a_controller_that_has_not_noticed(awake: RunningCity) -> None:
    awake.settled(awake.sling("echo hello"))
    lose(awake)
    ran = awake.run("doctor", "--fix")
    assert (ran.code, ended(awake)) == (0, True), ran
    assert awake.work("w-1").status == DONE


@pytest.mark.parametrize("damage", [b"", b"not a database", b"\0" * 8192])
def test_a_damaged_store_is_restored_from_the_newest_sound_backup(
    town: RunningCity, damage: bytes
) -> None:
    root = str(town.root)
    town.run("sling", "shell", "echo hello", "--no-start")
    back_up_store(root, time.time() - 100)
    broken = back_up_store(root, time.time())
    Path(broken.path).write_bytes(b"damaged, too")
    lose(town)
    (town.root / ".gc/city.db").write_bytes(damage)
    ran = town.run("doctor")
    assert (ran.code, "damaged; the newest backup is from" in ran.out) == (1, True), ran
    assert (town.root / ".gc/city.db").read_bytes() == damage, "changes nothing without --fix"
    ran = town.run("doctor", "--fix", "--json")
    [store] = [row for row in ran.json["results"] if row["name"] == "store"]
    assert (ran.code, store["status"], store["fixed"]) == (0, "ok", True)
    assert "1 work items are unfinished in it" in store["message"]
    assert town.work("w-1").status == OPEN
    [kept] = (town.root / ".gc/backup").glob("store-replaced-*")
    assert (kept / "city.db").read_bytes() == damage
    assert town.run("doctor").code == 0


def test_without_a_backup_a_new_store_is_created_only_on_request(town: RunningCity) -> None:
    town.run("sling", "shell", "echo hello", "--no-start")
    lose(town)
    ran = town.run("doctor", "--fix")
    assert (ran.code, "there is no backup" in ran.out) == (1, True)
    assert "city start --new-store" in ran.err
    assert town.run("start", "--new-store").code == 0
    assert town.store.list_work() == []
    ran = town.run("start", "--new-store")
    assert (ran.code, "store-exists" in ran.err or "controller-running" in ran.err) == (1, True)


def test_a_sound_store_is_not_replaced_by_a_new_one(town: RunningCity) -> None:
    town.run("sling", "shell", "echo hello", "--no-start")
    ran = town.run("start", "--new-store")
    assert (ran.code, "[store-exists]" in ran.err) == (1, True)
    assert town.work("w-1").status == OPEN


def test_a_running_controller_backs_up_its_store_when_that_is_due(town: RunningCity) -> None:
    town.run("sling", "shell", "echo hello", "--no-start")
    marker = town.root / ".gc/city.db.created"
    os.utime(marker, (time.time() - 7200,) * 2)
    town.start()
    [backup] = town.until(lambda: list_backups(str(town.root)))
    assert backup.kind == "daily"
    town.settled("w-1")


def test_an_old_backup_is_reported_and_renewed(town: RunningCity) -> None:
    town.run("sling", "shell", "echo hello", "--no-start")
    back_up_store(str(town.root), time.time() - 3 * 86400)
    ran = town.run("doctor")
    assert (ran.code, "[store-not-backed-up]" in ran.err) == (0, True)
    ran = town.run("doctor", "--fix", "--json")
    assert [row["name"] for row in ran.json["results"] if row["fixed"]] == ["backups"]
    assert len(list_backups(str(town.root))) == 2


def test_a_refused_controller_names_the_one_that_runs(awake: RunningCity) -> None:
    ran = awake.run("start", "--foreground")
    assert (ran.code, f"already running (pid {awake.pid})" in ran.err) == (1, True)
