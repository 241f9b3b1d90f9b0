"""Processes above a process, and the runs they belong to."""

import os
import subprocess
import sys
from pathlib import Path

from gascity.ancestry import belongs_to_run, lineage, make_mark, read_mark, write_mark

ASK = (
    "import os, sys; from gascity.ancestry import belongs_to_run as asked;"
    " print(asked(sys.argv[1], os.getpid()))"
)


def asked(root: Path, prefix: str, env: dict[str, str]) -> str:
    """Return the answer of a process that a shell with this environment starts."""
    command = f'{prefix} "{sys.executable}" -c "{ASK}" "{root}"; true'
    done = subprocess.run(
        ["sh", "-c", command],
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_lineage_of_a_process_starts_with_itself_and_its_parent() -> None:
    pids = [process.pid for process in lineage(os.getpid())]
    assert pids[:2] == [os.getpid(), os.getppid()]


def test_a_process_that_does_not_exist_has_no_lineage() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert lineage(done.pid) == []
    assert lineage(0) == []


def test_a_process_below_a_run_belongs_to_it_whatever_its_own_environment_is(
    tmp_path: Path,
) -> None:
    run = {"CITY_SESSION_ID": "s", "CITY_ROOT": str(tmp_path)}
    for prefix in ("", "env -i", "setsid -w env -i", "env -i sh -c '\"$@\"' -"):
        assert asked(tmp_path, prefix, run) == "True", prefix


def test_a_process_below_a_run_of_another_city_does_not(tmp_path: Path) -> None:
    run = {"CITY_SESSION_ID": "s", "CITY_ROOT": str(tmp_path / "other")}
    assert asked(tmp_path, "", run) == "False"
    assert asked(tmp_path, "", {"CITY_ROOT": str(tmp_path)}) == "False"
    assert not belongs_to_run(str(tmp_path), os.getpid())


def test_a_city_is_recognised_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    run = {"CITY_SESSION_ID": "s", "CITY_ROOT": str(tmp_path / "link")}
    assert asked(tmp_path, "env -i", run) == "True"


def test_a_terminal_of_the_city_belongs_to_it(tmp_path: Path) -> None:
    assert asked(tmp_path, "env -i", {"CITY_TERMINALS": str(tmp_path)}) == "True"


MARK = (
    "import os, sys; from gascity import ancestry as a;"
    " a.write_mark(os.getpid(), a.make_mark(sys.argv[1], 's', 1)); os.execvp('sh', sys.argv[2:])"
)


def test_a_detached_process_without_environment_and_parents_belongs_to_its_run(
    tmp_path: Path,
) -> None:
    script = f'setsid -f env -i "{sys.executable}" -c "{ASK}" "$0"'
    for asked_root, answer in ((tmp_path, "True"), (tmp_path / "other", "False")):
        done = subprocess.run(
            [sys.executable, "-c", MARK, str(tmp_path), "sh", "-c", script, str(asked_root)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == answer


def test_a_mark_can_be_removed_and_restored() -> None:
    script = (
        "import os; from gascity.ancestry import make_mark, read_mark, remove_mark, write_mark;"
        " mark = make_mark('/city', 's', 1); assert write_mark(os.getpid(), mark);"
        " assert read_mark(os.getpid()) == mark; assert remove_mark() == mark;"
        " assert read_mark(os.getpid()) == 0; assert write_mark(os.getpid(), mark);"
        " assert read_mark(os.getpid()) == mark"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert read_mark(os.getpid()) == 0
    assert make_mark("/city", "s", 1) != make_mark("/city", "s", 2)
    done = subprocess.Popen(["true"])
    done.wait()
    assert not write_mark(done.pid, make_mark("/city", "s", 1))
