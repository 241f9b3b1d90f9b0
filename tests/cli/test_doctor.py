"""`city doctor`: a sound city, ten broken ones, and the form of its answer."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gascity.model.work import WAITING, NewWork
from gascity.store import open_store
from tests.cli.sessions import a_session, put
from tests.cli.shapes import PROBLEM, TEXT, OneOf, fits
from tests.support.command import Command, Ran
from tests.support.git import git, repository
from tests.support.trees import build_tree

RESULTS = {
    "schema": int,
    "results": [
        {
            "name": str,
            "status": OneOf("ok", "warning", "error"),
            "message": str,
            "fix": TEXT,
            "fixed": bool,
            "problems": [PROBLEM],
        }
    ],
}
Town = Callable[..., Path]
NO_AGENTS = "implicit_agents = false\n"


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


pytestmark = pytest.mark.usefixtures("git_here")


@pytest.fixture(autouse=True)
def usual_programs(programs: Path) -> None:
    program(programs / "tmux", "exit 0")


def programs_on_path() -> Path:
    return Path(os.environ["PATH"])


def examined(ran: Ran) -> dict[str, dict[str, Any]]:
    """The results by name."""
    fits(ran.json, RESULTS)
    return {row["name"]: row for row in ran.json["results"]}


def codes(row: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in row["problems"]]


def test_a_new_city_is_in_order_and_stays_untouched(run: Command, town: Town) -> None:
    root = town({"city.toml": NO_AGENTS})
    ran = run("doctor", "--json", cwd=root)
    assert ran.code == 0
    assert {row["status"] for row in examined(ran).values()} == {"ok"}
    assert not (root / ".gc/city.db").exists()
    assert "no work yet" in run("doctor", "--fix", cwd=root).out


def damaged_store(root: Path) -> None:
    (root / ".gc").mkdir()
    (root / ".gc/city.db").write_bytes(b"no database" * 100)


def invalid_toml(root: Path) -> None:
    (root / "city.toml").write_text("oops\n")


def missing_provider(root: Path) -> None:
    build_tree(root, {"agents/mayor/prompt.md": "x\n"})


def no_login(root: Path) -> None:
    missing_provider(root)
    program(programs_on_path() / "claude", "echo 2.1.325")


def lost_python(root: Path) -> None:
    build_tree(root, {".gc/bin/city": '#!/bin/sh\nexec /gone/python -P -m gascity "$@"\n'})


def no_git(root: Path) -> None:
    build_tree(root, {"city.toml": f'{NO_AGENTS}[imports.a]\nsource = "https://x.org/a.git"\n'})
    (programs_on_path() / "git").unlink()


def rig(root: Path) -> Path:
    made = repository(root / "rigs/dock", {"a.txt": "a\n"})
    build_tree(root, {"city.toml": f'{NO_AGENTS}[[rigs]]\nname = "dock"\npath = "rigs/dock"\n'})
    return made


def left_lock(root: Path) -> None:
    lock = rig(root) / ".git/index.lock"
    lock.touch()
    os.utime(lock, (0, 0))


def left_branch(root: Path) -> None:
    git(rig(root), "branch", "city/mayor/w-7")


def left_worktree(root: Path) -> None:
    git(rig(root), "worktree", "add", "-q", "--detach", str(root / ".gc/work/mayor/w-7"))


def old_clock(root: Path) -> None:
    store = open_store(str(root))
    store.add_work(NewWork("mayor", "Later", "."), time.time() + 9000)
    store.close()


def waiting_session(root: Path) -> None:
    put(root, a_session()._replace(state=WAITING, reason="trust dialog"))


def uninstalled_pack(root: Path) -> None:
    build_tree(root, {"city.toml": f'{NO_AGENTS}[imports.a]\nsource = "https://x.org/a.git"\n'})


def old_schemas(root: Path) -> None:
    build_tree(root, {".gc/schemas/city.schema.json": "{}\n"})


BROKEN = {
    "store": (damaged_store, "store-broken", "error", "city start --new-store"),
    "packs": (invalid_toml, "bad-toml", "error", "city check"),
    "provider claude": (missing_provider, "program-missing", "error", "install Claude Code"),
    "provider claude, login": (no_login, "not-logged-in", "warning", "run `claude` once"),
    "python": (lost_python, "program-missing", "error", "city restart"),
    "git": (no_git, "program-missing", "error", "install git"),
    "locks": (left_lock, "git-lock-left", "warning", "rm "),
    "branches": (left_branch, "branch-without-item", "warning", "city prune"),
    "branches, worktree": (left_worktree, "branch-without-item", "warning", "city prune"),
    "clock": (old_clock, "clock-behind", "error", "set the clock"),
    "sessions": (waiting_session, "session-waiting", "warning", "city session attach mayor-1"),
    "packs, cache": (uninstalled_pack, "import-not-locked", "error", "city pack install"),
    "schemas": (old_schemas, "schemas-outdated", "warning", "city doctor --fix"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_city_is_diagnosed_with_a_fix(run: Command, town: Town, name: str) -> None:
    break_it, code, status, fix = BROKEN[name]
    root = town({"city.toml": NO_AGENTS})
    break_it(root)
    ran = run("doctor", "--json", cwd=root)
    row = examined(ran)[name.partition(",")[0]]
    assert (row["status"], codes(row)) == (status, [code])
    assert row["fix"].startswith(fix)
    assert all(problem["hint"] for problem in row["problems"] if code != "bad-toml")
    assert ran.code == (1 if status == "error" else 0)
    text = run("doctor", cwd=root)
    assert f"[{code}]" in text.err


def test_safe_repairs_are_made_and_reported(run: Command, town: Town) -> None:
    root = town({"city.toml": NO_AGENTS})
    old_schemas(root)
    row = examined(run("doctor", "--fix", "--json", cwd=root))["schemas"]
    assert (row["status"], row["fixed"]) == ("ok", True)
    assert examined(run("doctor", "--json", cwd=root))["schemas"]["status"] == "ok"
    assert "title" in (root / ".gc/schemas/city.schema.json").read_text()


def test_a_login_is_read_from_a_variable_or_a_file(
    run: Command, town: Town, private_home: Path
) -> None:
    root = town({"city.toml": NO_AGENTS})
    no_login(root)
    by_name = examined(run("doctor", "--json", cwd=root, env={"ANTHROPIC_API_KEY": "k"}))
    assert by_name["provider claude"]["message"].endswith(
        "claude, 2.1.325, login: ANTHROPIC_API_KEY, asks for trust in each new directory"
    )
    build_tree(private_home, {".claude/.credentials.json": "{}"})
    assert "logged in" in examined(run("doctor", "--json", cwd=root))["provider claude"]["message"]


def test_a_process_of_an_ended_session_is_found(run: Command, town: Town) -> None:
    root = town({"city.toml": NO_AGENTS})
    environ = {"CITY_SESSION_ID": "s-gone", "CITY_GENERATION": "1", "CITY_ROOT": str(root)}
    stray = subprocess.Popen(["/bin/sh", "-c", "read x"], env=environ, stdin=subprocess.PIPE)
    try:
        row = examined(run("doctor", "--json", cwd=root))["processes"]
    finally:
        stray.communicate()
    assert codes(row) == ["stray-process"]
    assert row["fix"] == f"kill {stray.pid}"
