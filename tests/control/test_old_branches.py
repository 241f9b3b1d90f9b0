"""A new work item never starts on an old item's branch, whatever its id."""

import shutil
from pathlib import Path

import pytest

from gascity.model.work import DONE
from tests.support.git import git, repository
from tests.support.running import POOL, RunningCity

COMMIT = "echo {0} > {0}; git add {0}; git -c user.name=x -c user.email=x@x commit -qm {0}"


@pytest.mark.parametrize("lost", ["the store", "all of .gc"])
def test_the_first_item_of_a_new_store_gets_a_branch_of_its_own(
    town: RunningCity, tmp_path: Path, lost: str
) -> None:
    rig = repository(tmp_path / "rig", {"file": "content\n"})
    town.write({"city.toml": f'{POOL.format(1)}\n[[rigs]]\nname = "rig"\npath = "{rig}"\n'})
    town.start()
    [old] = town.settled(town.sling(COMMIT.format("old"), "rig/shell"))
    assert (old.status, old.commits) == (DONE, 1)
    assert town.stop().code == 0
    town.close()
    if lost == "the store":
        for name in ("city.db", "city.db-wal", "city.db-shm"):
            (town.root / ".gc" / name).unlink(missing_ok=True)
    else:
        shutil.rmtree(town.root / ".gc")
    assert town.run("start", "--new-store").code == 0
    [new] = town.settled(town.sling(COMMIT.format("new"), "rig/shell"))
    assert (new.id, new.status, new.commits) == (old.id, DONE, 1)
    assert new.branch == f"{old.branch}-2"
    log = git(rig, "log", "--format=%s", f"main..{old.branch}").split()
    assert log == ["old"]
    assert git(rig, "log", "--format=%s", f"main..{new.branch}").split() == ["new"]
