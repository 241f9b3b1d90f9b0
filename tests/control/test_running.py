"""Work from sling to its end, with real processes."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gascity.cli.context import CommandContext
from gascity.cli.wait import launch_and_wait
from gascity.control.client import controller_state, launch_controller, send_request
from gascity.control.paths import controller_log
from gascity.model.work import CANCELLED, DONE, FAILED, OPEN
from tests.support.forkserver import gone
from tests.support.git import repository
from tests.support.running import POOL, RunningCity


def test_slung_work_is_done_in_the_agents_directory_and_its_session_ends(
    awake: RunningCity,
) -> None:
    id = awake.sling("echo from $PWD; touch made")
    [work] = awake.settled(id)
    assert (work.status, work.attempts) == (DONE, 1)
    assert work.result is not None
    assert work.result.exit_code == 0
    assert awake.log(id) == f"from {awake.root}/.gc/work/shell\n"
    assert (awake.root / ".gc/work/shell/made").exists()
    awake.until(lambda: not awake.sessions())
    [session] = awake.sessions(live=None)
    assert (session.state, session.reason) == ("stopped", "stopped (idle)")


def test_a_session_knows_who_it_is(awake: RunningCity) -> None:
    id = awake.sling("env | sort; city work show $CITY_WORK_ID --json; gc bd list; echo $?")
    awake.settled(id)
    log_text = awake.log(id)
    [session] = awake.sessions(live=None)
    for line in (
        f"CITY_ROOT={awake.root}",
        "CITY_AGENT=shell",
        "CITY_RIG=",
        f"CITY_SESSION_ID={session.id}",
        "CITY_GENERATION=1",
        f"CITY_WORK_ID={id}",
        f"CITY_WORKDIR={awake.root}/.gc/work/shell",
        f"GC_CITY_PATH={awake.root}",
        f"GC_BEAD_ID={id}",
        "GC_ALIAS=shell-1",
        f"GC_BIN={awake.root}/.gc/bin/gc",
    ):
        assert f"{line}\n" in log_text
    assert f"PATH={awake.root}/.gc/bin:" in log_text
    assert '"status": "claimed"' in log_text
    assert log_text.endswith("1\n")


def test_failing_work_fails_and_says_why(awake: RunningCity) -> None:
    [work] = awake.settled(awake.sling("echo oh; exit 3"))
    assert (work.status, work.attempts) == (FAILED, 1)
    assert work.result is not None
    assert (work.result.exit_code, work.result.summary) == (3, "oh")
    assert "3" in work.reason


def test_failures_are_tried_again_as_often_as_the_agent_says(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(1) + "[patches.agent.limits]\nretries = 2\n"})
    town.start()
    [work] = town.settled(town.sling("echo try; exit 1"))
    assert (work.status, work.attempts) == (FAILED, 3)


def test_a_worker_that_is_killed_is_tried_again(awake: RunningCity) -> None:
    id = awake.sling("test -e before && exit 0; touch before; kill -9 $$")
    [work] = awake.settled(id)
    assert (work.status, work.attempts) == (DONE, 2)


def test_work_whose_runs_are_lost_again_and_again_is_given_up(awake: RunningCity) -> None:
    [work] = awake.settled(awake.sling("kill -9 $$"))
    assert (work.status, work.attempts) == (FAILED, 3)
    assert "3" in work.reason


def test_a_pool_grows_to_its_maximum_and_shrinks_to_nothing(awake: RunningCity) -> None:
    ids = [awake.sling("while [ ! -e ../go ]; do sleep 0.02; done") for _ in range(5)]
    awake.until(lambda: len([s for s in awake.sessions() if s.state == "running"]) == 3)
    assert sum(awake.work(id).status == OPEN for id in ids) == 2
    directories = {session.workdir for session in awake.sessions()}
    assert directories == {
        f"{awake.root}/.gc/work/{name}" for name in ("shell", "shell~2", "shell~3")
    }
    (awake.root / ".gc/work/go").touch()
    assert {work.status for work in awake.settled(*ids)} == {DONE}
    awake.until(lambda: not awake.sessions())


def test_urgent_work_comes_first_and_work_after_other_work_waits(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(1)})
    town.start()
    go = "while [ ! -e ../go ]; do sleep 0.02; done; echo {} >> ../order"
    first = town.sling(go.format("first"))
    town.running(first)
    usual = town.sling(go.format("usual"))
    urgent = town.sling(go.format("urgent"), priority=0)
    after = town.sling(go.format("after"), after=[usual], priority=0)
    (town.root / ".gc/work/go").touch()
    town.settled(first, usual, urgent, after)
    order = (town.root / ".gc/work/order").read_text().split()
    assert order == ["first", "urgent", "usual", "after"]


def test_cancelling_stops_the_run(awake: RunningCity) -> None:
    id = awake.sling("sleep 1000")
    session = awake.running(id)
    assert awake.run("work", "cancel", id).code == 0
    awake.until(lambda: not awake.sessions())
    assert awake.work(id).status == CANCELLED
    assert not Path(f"/proc/{session.pid}").exists()
    assert awake.leftovers() == []


def test_work_that_its_agent_finished_stays_finished_whatever_the_process_does(
    awake: RunningCity,
) -> None:
    id = awake.sling("city work done --summary 'all well' && exit 9")
    [work] = awake.settled(id)
    awake.until(lambda: not awake.sessions())
    assert work.status == awake.work(id).status == DONE
    assert work.result is not None
    assert work.result.summary == "all well"


def test_a_run_that_takes_too_long_fails_its_work(town: RunningCity) -> None:
    city = POOL.format(1) + '[patches.agent.limits]\ntimeout = "200ms"\n'
    town.write({"city.toml": city + '[session]\nshutdown_timeout = "100ms"\n'})
    town.start()
    [work] = town.settled(town.sling("trap '' INT TERM; sleep 1000"))
    assert work.status == FAILED
    assert work.reason == "time limit exceeded"
    town.until(lambda: town.leftovers() == [])


def test_every_run_of_an_idle_session_has_the_time_limit(town: RunningCity) -> None:
    city = POOL.format(1) + "min_active_sessions = 1\n[patches.agent.limits]\n"
    town.write({"city.toml": city + 'timeout = "200ms"\n[session]\nshutdown_timeout = "100ms"\n'})
    town.start()
    for _ in range(3):
        [work] = town.settled(town.sling("sleep 1000"))
        assert (work.status, work.reason) == (FAILED, "time limit exceeded")
    assert len(town.sessions(live=None)) == 1


def test_stop_ends_every_run_even_one_that_ignores_signals(town: RunningCity) -> None:
    town.write({"city.toml": POOL.format(2) + '[session]\nshutdown_timeout = "100ms"\n'})
    town.start()
    stubborn = town.sling("trap '' INT TERM HUP; while :; do sleep 1000; done")
    daemon = town.sling("setsid sleep 1000 & sleep 1000")
    town.running(stubborn)
    town.running(daemon)
    done = town.stop()
    assert done.code == 0, done.err
    assert "2 sessions ended" in done.out
    assert town.leftovers() == []
    assert not controller_state(str(town.root)).running
    assert [town.work(id).status for id in (stubborn, daemon)] == [OPEN, OPEN]
    works = [town.work(id) for id in (stubborn, daemon)]
    assert [(work.attempts, work.attempts_since_retry) for work in works] == [(1, 0), (1, 0)]


def test_runs_survive_a_killed_controller_and_are_adopted(
    awake: RunningCity,
) -> None:
    ended = awake.sling("while [ ! -e ../go ]; do sleep 0.02; done; echo one >> ../order")
    lasting = awake.sling("while [ ! -e ../more ]; do sleep 0.02; done; echo two >> ../order")
    pids = {awake.running(ended).pid, awake.running(lasting).pid}
    awake.kill_controller()
    (awake.root / ".gc/work/go").touch()
    awake.until(lambda: (awake.root / ".gc/work/order").exists())
    awake.start()
    [work] = awake.settled(ended)
    assert (work.status, work.attempts) == (DONE, 1)
    assert awake.running(lasting).pid in pids
    (awake.root / ".gc/work/more").touch()
    [work] = awake.settled(lasting)
    assert (work.status, work.attempts) == (DONE, 1)
    assert (awake.root / ".gc/work/order").read_text() == "one\ntwo\n"


def test_a_restart_replaces_only_the_controller(awake: RunningCity) -> None:
    id = awake.sling("while [ ! -e ../go ]; do sleep 0.02; done")
    pid, before = awake.running(id).pid, awake.pid
    assert awake.run("restart").code == 0
    assert awake.pid != before
    assert awake.running(id).pid == pid
    (awake.root / ".gc/work/go").touch()
    [work] = awake.settled(id)
    assert (work.status, work.attempts) == (DONE, 1)


def test_work_is_kept_without_a_controller_and_sling_starts_one(town: RunningCity) -> None:
    kept = town.run("sling", "shell", "echo kept", "--no-start", "--json").json
    assert [one["code"] for one in kept["blocked_by"]] == ["no-controller"]
    done = town.run("sling", "shell", "echo done", "--wait", "--json").json
    assert done["status"] == DONE
    assert done["result"]["summary"] == "done"
    assert town.settled(kept["work"])[0].status == DONE


def test_an_interrupt_to_a_controller_in_the_foreground_ends_everything(
    awake: RunningCity,
) -> None:
    awake.running(awake.sling("sleep 1000"))
    os.kill(awake.pid, signal.SIGINT)
    awake.until(lambda: not controller_state(str(awake.root)).running)
    assert awake.leftovers() == []


def test_commands_before_a_run_know_the_names_that_prompts_know(town: RunningCity) -> None:
    agent = """\
provider = "shell"
pre_start = ["echo before {{ .AgentBase }} in {{ .WorkDir | basename }}"]
session_setup = ["echo setup; false", "sleep 100"]
session_live = ["echo live {{ .Session }}"]
"""
    town.write(
        {
            "city.toml": '[session]\nsetup_timeout = "300ms"\n',
            "agents/hand/agent.toml": agent,
            "agents/hand/prompt.md": "Run.\n",
        }
    )
    town.start()
    id = town.sling("echo run", agent="hand")
    assert town.settled(id)[0].status == DONE
    lines = [line for line in town.log(id).splitlines() if not line.startswith("city: ")]
    assert lines == ["before hand in hand", "setup", "live hand", "run"]
    assert "city: failed with status 124, continuing: timeout 0.3 sh -c" in town.log(id)


def test_a_command_that_must_succeed_first_fails_the_work(town: RunningCity) -> None:
    agent = 'provider = "shell"\npre_start = ["echo no; exit 5"]\n'
    town.write({"agents/hand/agent.toml": agent, "agents/hand/prompt.md": "Run.\n"})
    town.start()
    [work] = town.settled(town.sling("echo run", agent="hand"))
    assert work.status == FAILED
    assert work.result is not None
    assert work.result.exit_code == 5


def test_a_start_command_of_its_own_is_run_instead_of_the_provider(town: RunningCity) -> None:
    agent = 'provider = "shell"\nstart_command = "echo {{ .AgentName }}; city hook --json"\n'
    town.write({"agents/hand/agent.toml": agent, "agents/hand/prompt.md": "Run.\n"})
    town.start()
    id = town.sling("the text", agent="hand")
    assert town.settled(id)[0].status == DONE
    assert town.log(id).startswith("hand\n")
    assert '"body": "the text"' in town.log(id)


def in_rig(town: RunningCity, tmp_path: Path, hook: str, city: str = "") -> Path:
    """A city with one rig whose checkouts run a hook of this text first."""
    rig = repository(tmp_path / "dome", {"a.txt": "a\n"})
    file = rig / ".git/hooks/post-checkout"
    file.write_text(f"#!/bin/sh\n{hook}\n")
    file.chmod(0o755)
    town.write(
        {
            "city.toml": f'{city}[[rigs]]\nname = "dome"\n',
            "city.local.toml": f'[[rigs]]\nname = "dome"\npath = "{rig}"\n',
        }
    )
    return rig


def test_a_directory_that_does_not_get_ready_is_given_up(town: RunningCity, tmp_path: Path) -> None:
    go = tmp_path / "go"
    hook = f"while [ ! -e {go} ]; do sleep 0.02; done"
    in_rig(town, tmp_path, hook, '[session]\nstartup_timeout = "300ms"\n')
    town.start()
    id = town.sling("true", agent="dome/shell")
    town.until(lambda: town.store.get_note("blocked dome/shell").startswith("start-timeout"))
    assert (town.work(id).status, town.work(id).attempts) == (OPEN, 0)
    assert not town.sessions()
    go.touch()


def test_work_cancelled_while_its_directory_is_prepared_does_not_run(
    town: RunningCity, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    in_rig(town, tmp_path, f"while [ ! -e {go} ]; do sleep 0.02; done")
    town.start()
    id = town.sling(f"touch {tmp_path}/ran", agent="dome/shell")
    town.until(lambda: [session.state for session in town.sessions()] == ["starting"])
    assert town.run("work", "cancel", id).code == 0
    go.touch()
    town.until(lambda: not town.sessions())
    assert town.work(id).status == CANCELLED
    assert not (tmp_path / "ran").exists()


def test_a_city_can_be_stopped_while_a_directory_is_made(town: RunningCity, tmp_path: Path) -> None:
    go = tmp_path / "go"
    in_rig(town, tmp_path, f"while [ ! -e {go} ]; do sleep 0.02; done")
    town.start()
    id = town.sling("true", agent="dome/shell")
    town.until(lambda: [session.state for session in town.sessions()] == ["starting"])
    town.run("work", "cancel", id)
    go.touch()
    done = town.stop()
    assert (done.code, town.sessions()) == (0, [])


def test_a_run_that_hangs_after_its_work_is_done_makes_way(town: RunningCity) -> None:
    pool = POOL.format(1) + 'drain_timeout = "200ms"\n'
    town.write({"city.toml": pool + '[session]\nshutdown_timeout = "100ms"\n'})
    town.start()
    first = town.sling("city work done; exec sleep 1000")
    second = town.sling("true")
    assert [work.status for work in town.settled(first, second)] == [DONE, DONE]


def test_an_item_that_cannot_be_handed_over_fails_and_lets_others_pass(town: RunningCity) -> None:
    provider = '[providers.echo]\ncommand = "echo"\nprompt_mode = "arg"\ninteractive = false\n'
    agent = {"agents/hand/agent.toml": 'provider = "echo"\n', "agents/hand/prompt.md": "Say.\n"}
    town.write({"city.toml": provider, **agent})
    town.start()
    long = town.sling("x" * 300_000, agent="hand")
    short = town.sling("well", agent="hand")
    works = town.settled(long, short)
    assert [work.status for work in works] == [FAILED, DONE]
    assert works[0].attempts <= 1


def test_why_a_run_was_ended_outlives_the_controller(town: RunningCity) -> None:
    city = POOL.format(1) + '[patches.agent.limits]\ntimeout = "200ms"\n'
    town.write({"city.toml": city + '[session]\nshutdown_timeout = "1h"\n'})
    town.start()
    go = town.root / ".gc/work/go"
    id = town.sling(f"trap 'while [ ! -e {go} ]; do sleep 0.02; done; exit 0' INT; sleep 1000")
    town.until(lambda: [session.state for session in town.sessions()] == ["stopping"])
    town.kill_controller()
    go.touch()
    town.start()
    [work] = town.settled(id)
    assert work.status == FAILED
    assert work.reason == "time limit exceeded"


def test_several_rigs_may_have_agents_with_the_same_name(town: RunningCity) -> None:
    rigs = [f"rig-{n}" for n in range(6)]
    for name in rigs:
        (town.root / name).mkdir(parents=True)
    city = "".join(f'[[rigs]]\nname = "{name}"\npath = "{name}"\n' for name in rigs)
    agent = 'provider = "shell"\nscope = "rig"\nmax_active_sessions = 2\n'
    files = {"agents/worker/agent.toml": agent, "agents/worker/prompt.md": "Run.\n"}
    town.write({"city.toml": city + "[workspace]\nmax_active_sessions = -1\n", **files})
    town.start()
    script = f"while [ ! -e {town.root}/go ]; do sleep 0.02; done"
    ids = [town.sling(script, agent=f"{name}/worker") for name in rigs for _ in range(2)]
    for id in ids:
        town.running(id)
    assert len({session.alias for session in town.sessions()}) == 12
    (town.root / "go").touch()
    assert {work.status for work in town.settled(*ids)} == {DONE}


def test_a_controller_in_the_foreground_can_be_the_first_thing_in_a_city(
    town: RunningCity,
) -> None:
    words = [sys.executable, "-m", "gascity", "start", "--foreground"]
    process = subprocess.Popen(words, cwd=town.root, stderr=subprocess.DEVNULL)
    try:
        town.until(lambda: send_request(str(town.root), {"op": "ping"}))
        town.settled(town.sling("true"))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
    assert (town.root / ".gc/.gitignore").read_text() == "*\n"


def test_a_session_cannot_stop_its_own_city(awake: RunningCity) -> None:
    granted = '[patches.agent.capabilities]\nallow = ["city.control"]\n'
    awake.write({"city.toml": POOL.format(3) + granted})
    id = awake.sling("city stop; echo $?")
    assert awake.settled(id)[0].status == DONE
    assert "[inside-session]" in awake.log(id)
    assert awake.log(id).endswith("1\n")


def test_sling_wait_starts_the_controller_again_after_a_kill(town: RunningCity) -> None:
    words = [sys.executable, "-m", "gascity", "sling", "shell", "--wait"]
    script = f"while [ ! -e {town.root}/go ]; do sleep 0.02; done; echo done"
    waiting = subprocess.Popen([*words, script], cwd=town.root, stdout=subprocess.PIPE)
    with waiting:
        town.until(lambda: any(session.pid for session in town.sessions()))
        town.kill_controller()
        town.until(lambda: controller_state(str(town.root)).running)
        (town.root / "go").touch()
        out, _ = waiting.communicate(timeout=30)
    assert out == b"w-1 done\ndone\n"


def test_a_controller_is_started_again_if_the_one_that_had_the_lock_was_killed(
    town: RunningCity, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[int] = []

    def lose_once(root: str, environ: Mapping[str, str]) -> int:
        if launched:
            return launch_controller(root, environ)
        log = Path(controller_log(root))
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("city: error: it is already running (pid 1) [controller-running]\n")
        launched.append(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 1"], {}))
        return launched[0]

    monkeypatch.setattr("gascity.cli.wait.launch_controller", lose_once)
    assert launch_and_wait(CommandContext(os.environ, str(town.root))) == town.pid


def test_controllers_started_at_once_come_to_one(town: RunningCity) -> None:
    words = [sys.executable, "-m", "gascity", "start"]
    started = [
        subprocess.Popen(words, cwd=town.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0] * 4, results
    assert {out for out, _ in results} <= {
        f"Controller started (pid {town.pid}).\n".encode(),
        f"Controller is already running (pid {town.pid}).\n".encode(),
    }


def test_a_stop_right_after_a_sling_ends_the_controller_that_it_started(town: RunningCity) -> None:
    assert town.run("sling", "shell", "sleep 1000").code == 0
    assert town.stop().code == 0
    assert not controller_state(str(town.root)).running
    assert town.leftovers() == []


def test_a_controller_whose_city_is_deleted_ends(awake: RunningCity) -> None:
    session = awake.running(awake.sling("sleep 1000"))
    pid = awake.pid

    def deleted() -> bool:
        # What the controller writes while files go may be left over; `rm` is then asked again.
        shutil.rmtree(awake.root, ignore_errors=True)
        return not awake.root.exists()

    awake.until(deleted)
    awake.until(lambda: not Path(f"/proc/{pid}").exists())
    assert gone(session.pid)  # perhaps not reaped yet: its parent ended just now


def test_temporary_files_of_runs_are_deleted_even_after_a_kill(awake: RunningCity) -> None:
    ended = awake.sling("true")
    lasting = awake.sling("while [ ! -e ../go ]; do sleep 0.02; done")
    awake.settled(ended)
    session = awake.running(lasting)
    awake.kill_controller()
    awake.start()
    left = {name.split(".")[0] for name in os.listdir(awake.root / ".gc/run") if "-" in name}
    assert left == {session.id}
    (awake.root / ".gc/work/go").touch()
    assert awake.settled(lasting)[0].attempts == 1
