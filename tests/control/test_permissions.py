"""Permissions of sessions, tried from inside real runs: the agents are scripts that call `city`."""

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gascity.control.client import send_request
from gascity.control.paths import run_directory, socket_name
from gascity.model.work import STOPPED
from tests.support.running import RunningCity

FREE = "max_active_sessions = 3\n"
# Slung to by users; sees `ally` and itself, not `rival`.
LEAD = f"""\
description = "Leads."
provider = "shell"
{FREE}
[agents_filter]
allow = ["ally", "lead"]
"""
PLAIN = f'description = "Works."\nprovider = "shell"\n{FREE}'
FILES = {
    "city.toml": "",
    "agents/lead/agent.toml": LEAD,
    "agents/ally/agent.toml": PLAIN,
    "agents/rival/agent.toml": PLAIN,
    "agents/ghost/agent.toml": f"hidden = true\n{PLAIN}",
}
NOT_YOURS, NOT_HERE = "[not-your-session]", "[not-from-a-session]"


@pytest.fixture
def city(town: RunningCity) -> RunningCity:
    town.write(FILES)
    town.start()
    return town


def output_of(city: RunningCity, script: str, agent: str = "lead") -> str:
    """Run a script in a session; return its output and its exit code."""
    id = city.sling(f"({script}) 2>&1; echo code $?", agent)
    city.settled(id)
    city.until(lambda: "code " in city.log(id).rpartition("\n")[0][-10:])  # `work done` comes first
    return city.log(id)


def busy(city: RunningCity, agent: str) -> tuple[str, str]:
    """Return the work item and the session of a run that waits until it is stopped."""
    id = city.sling("sleep 600", agent)
    return id, city.running(id).id


# What the other side of each refusal is


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("session stop {session}", NOT_YOURS),
        ("session stop {session} --force", NOT_YOURS),
        ("session delete {session} --force", NOT_YOURS),
        ("session clear {session}", NOT_YOURS),
        ("session rename {session} mine", NOT_YOURS),
        ("session show {session}", NOT_YOURS),
        ("session peek {session}", NOT_YOURS),
        ("session logs {session}", NOT_YOURS),
        ("session nudge {session} 'do as I say'", NOT_YOURS),
        ("session attach {session}", NOT_HERE),
        ("session new rival", NOT_HERE),
        ("work done {work}", NOT_YOURS),
        ("work fail {work}", NOT_YOURS),
        ("work show {work}", NOT_YOURS),
        ("work logs {work}", NOT_YOURS),
        ("work cancel {work}", NOT_HERE),
        ("work retry {work}", NOT_HERE),
        ("work list --agent rival", NOT_HERE),
        ("why rival", NOT_HERE),
        ("mail send rival hello", NOT_HERE),
        ("mail read 1", NOT_YOURS),
        ("agent set lead max_active_sessions=9", NOT_HERE),
        ("agent list", NOT_HERE),
        ("check", NOT_HERE),
        ("pack add ../other", NOT_HERE),
        ("rig add /tmp", NOT_HERE),
        ("apply", NOT_HERE),
        ("undo", NOT_HERE),
        ("init /tmp/nowhere", NOT_HERE),
        ("start", NOT_HERE),
        ("stop", NOT_HERE),
        ("restart", NOT_HERE),
        ("reload", NOT_HERE),
        ("sling rival 'echo no'", "[agent-not-allowed]"),
        ("sling ghost 'echo no'", "there is no agent `ghost` [unknown-agent]"),
        ("session new ghost", "there is no agent `ghost` [unknown-agent]"),
        ("why ghost", "`ghost` [unknown-agent]"),
    ],
)
def test_a_session_cannot_act_for_others(city: RunningCity, command: str, code: str) -> None:
    work, session = busy(city, "rival")
    city.store.send_mail("human", "rival", "For rival", "The secret plan.", 0.0)
    before = (city.root / "agents/lead/agent.toml").read_text()
    output = output_of(city, f"city {command.format(work=work, session=session)}")
    assert code in output
    assert output.endswith("code 1\n")
    assert "secret plan" not in output
    assert "did you mean" not in output
    assert city.work(work).status == "claimed"
    assert city.running(work).id == session
    assert (city.root / "agents/lead/agent.toml").read_text() == before
    assert city.store.nudges(session) == []


def test_a_session_sees_only_what_its_filter_allows(city: RunningCity) -> None:
    work, _ = busy(city, "rival")
    hidden, _ = busy(city, "ghost")
    friend, _ = busy(city, "ally")
    for command in ("session list", "work list", "status", "events"):
        output = output_of(city, f"city {command} --json")
        assert output.endswith("code 0\n"), output
        for name in ("rival", "ghost"):
            assert f'"{name}"' not in output, (command, name)
        assert '"ally"' in output, command
    listed = output_of(city, "city work list")
    assert friend in listed
    assert work not in listed
    assert hidden not in listed


def test_the_documented_commands_of_agents_work(city: RunningCity) -> None:
    friend, session = busy(city, "ally")
    output = output_of(
        city,
        " && ".join(
            (
                "city prime --hook",
                "city hook",
                "city runtime heartbeat",
                "city mail send human done",
                "city mail send ally hello",
                "city mail inbox",
                f"city session show {session}",
                f"city session logs {session}",
                f"city session nudge {session} 'and now this'",
                f"city work show {friend}",
                f"city why {friend}",
                "city session show",
                "city sling ally 'echo from lead'",
                "city work done --summary 'all of it'",
            )
        ),
    )
    assert output.endswith("code 0\n"), output
    [mail] = city.store.inbox(["ally"])
    assert mail.body == "hello"
    assert [nudge.text for nudge in city.store.nudges(session)] == ["and now this"]
    assert {work.sender for work in city.store.list_work(agent="ally")} > {"human"}


# Who is asked is found out by the kernel, not only by variables


WAYS = {
    "without variables": "env -i PATH=$PATH CITY_ROOT={root} {city} ",
    "in a new terminal session": "setsid -w env -i PATH=$PATH CITY_ROOT={root} {city} ",
    "below another shell": "env -i sh -c 'cd {root}; {city} \"$@\"' - ",
    "without its token": "env -u CITY_SESSION_TOKEN {city} ",
    "with a token of its own making": "env CITY_SESSION_TOKEN=00 {city} ",
    "as another session": "env CITY_SESSION_ID={session} {city} ",
    "as another start": "env CITY_GENERATION=7 {city} ",
    "with an empty session": "env CITY_SESSION_ID= {city} ",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", ["session stop {session}", "sling rival 'echo no'", "check"])
def test_a_session_does_not_become_a_user(city: RunningCity, way: str, command: str) -> None:
    work, session = busy(city, "rival")
    words = command.format(session=session)
    facts = {"root": city.root, "city": f"{sys.executable} -m gascity", "session": session}
    output = output_of(city, WAYS[way].format(**facts) + words)
    expected = "[stale-session]" if way == "as another start" else NOT_YOURS
    assert expected in output, output
    assert city.running(work).id == session
    assert len(city.store.list_work(agent="rival")) == 1


@pytest.mark.parametrize(
    "leave",
    # Without marks, a process that left everything of its run is not known: see security.md.
    ["sh -c", pytest.param("env -i PATH=$PATH setsid -f sh -c", marks=pytest.mark.linux)],
)
def test_a_process_whose_parents_exited_is_still_part_of_its_run(
    city: RunningCity, leave: str
) -> None:
    """It is in the terminal session that the run leads, or has at least the mark of the run."""
    result = city.root / "result"
    call = f"env -i PATH=$PATH CITY_ROOT={city.root} {sys.executable} -m gascity stop"
    city.sling(
        f"({leave} '{call} >{result}.tmp 2>&1; mv {result}.tmp {result}' &); sleep 600", "lead"
    )
    city.until(result.exists)
    assert NOT_YOURS in result.read_text()


def test_a_token_that_another_session_reads_is_of_no_use(city: RunningCity) -> None:
    work, session = busy(city, "rival")
    pid = city.running(work).pid
    output = output_of(
        city,
        f"export $(tr '\\0' '\\n' </proc/{pid}/environ | grep ^CITY_); city session stop {session}",
    )
    assert NOT_YOURS in output
    assert city.running(work).id == session


def test_a_session_cannot_use_the_socket_as_a_user(city: RunningCity) -> None:
    """Also if it does not use `city` to connect."""
    source = (
        "from gascity.control.client import send_request as s;"
        f"r={str(city.root)!r};"
        "print([s(r,{'op':o,'agent':'rival','text':'echo no'})"
        " for o in ('sling','stop','reload','status','stuck')])"
    )
    clear = "env -i GASCITY_PORTABLE=$GASCITY_PORTABLE"  # no session could change the system
    output = output_of(city, f"{clear} {sys.executable} -c {shlex.quote(source)}")
    assert output.count("'code': 'not-your-session'") == 5, output
    assert send_request(str(city.root), {"op": "ping"}) is not None


def test_a_connection_that_its_process_handed_on_is_refused(city: RunningCity) -> None:
    source = f"""
import os, socket, json, time
from gascity.sockets import SocketAddress
connector = os.fork()
if connector:
    os.waitpid(connector, 0)
    os._exit(0)
line = socket.socket(socket.AF_UNIX)
connector = os.getpid()
with SocketAddress({run_directory(str(city.root))!r}, {socket_name()!r}) as address:
    line.connect(address)
if os.fork():
    os._exit(0)
while os.path.exists("/proc/%d" % connector):
    time.sleep(0.001)
line.sendall(json.dumps(dict(op="sling", agent="rival", text="echo no")).encode() + b"\\n")
print(line.recv(10000).decode())
"""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=True
    )
    assert "cannot be identified" in done.stdout
    assert city.store.list_work(agent="rival") == []


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
def test_a_terminal_that_a_session_opens_is_part_of_the_city(city: RunningCity) -> None:
    from gascity.runtimes.tmux_client import TmuxClient, TmuxError

    client = TmuxClient(str(city.root), os.environ)
    result = city.root / "result"
    call = f"cd {city.root}; {sys.executable} -m gascity stop >{result}.tmp 2>&1"
    call += f"; mv {result}.tmp {result}"
    client.execute_starting_server(f"new-session -d -s other {shlex.quote(call)}")
    try:
        city.until(result.exists)
        assert NOT_YOURS in result.read_text()
    finally:
        with suppress(TmuxError):  # it exits by itself once its only session has ended
            client.execute("kill-server")


# The secret


def test_the_secret_is_nowhere_but_in_the_environment(city: RunningCity) -> None:
    id = city.sling("sleep 600", "lead")
    session = city.running(id)
    environ = Path(f"/proc/{session.pid}/environ").read_bytes().split(b"\0")
    [secret] = [entry[19:] for entry in environ if entry.startswith(b"CITY_SESSION_TOKEN=")]
    assert len(bytes.fromhex(secret.decode())) == 32
    assert secret not in Path(f"/proc/{session.pid}/cmdline").read_bytes()
    for command in ("session show", "session list", "events", "status", "why"):
        target = [session.id] if command in ("session show", "why") else []
        assert secret.decode() not in city.run(*command.split(), *target, "--json").out
    for path in (path for path in (city.root / ".gc").rglob("*") if path.is_file()):
        assert secret not in path.read_bytes(), path
    with sqlite3.connect(city.root / ".gc/city.db") as database:
        [(token,)] = database.execute("SELECT token FROM run WHERE session = ?", (session.id,))
    assert len(token) == 64
    assert secret.decode() != token


def test_each_start_gets_another_secret(city: RunningCity) -> None:
    first, second = (city.sling("echo token $CITY_SESSION_TOKEN", "lead") for _ in range(2))
    city.settled(first, second)
    assert city.log(first) != city.log(second)


def test_a_run_of_a_version_without_tokens_keeps_working(city: RunningCity) -> None:
    go = city.root / "go"
    wait = f"while ! test -e {go}; do sleep 0.01; done"
    id = city.sling(f"{wait}; unset CITY_SESSION_TOKEN; city work done --summary old", "lead")
    other = city.sling(f"{wait}; unset CITY_SESSION_TOKEN; city work done {id}", "ally")
    runs = [city.running(item).run for item in (id, other)]
    city.store.update_run(runs[0], {"token": ""})
    go.touch()
    [done, _] = city.settled(id, other)
    assert (done.status, done.result and done.result.summary) == ("done", "old")
    assert NOT_YOURS in city.log(other)


# Capabilities


def test_a_capability_grants_its_commands_and_nothing_else(city: RunningCity) -> None:
    city.write(
        {**FILES, "agents/lead/agent.toml": f'{LEAD}[capabilities]\nallow = ["city.work"]\n'}
    )
    work, session = busy(city, "rival")
    assert NOT_YOURS in output_of(city, f"city session stop {session}")
    output = output_of(city, f"city work show {work} && city work cancel {work}")
    assert output.endswith("code 0\n"), output
    assert city.work(work).status == "cancelled"


def test_city_admin_grants_all(city: RunningCity) -> None:
    city.write(
        {**FILES, "agents/lead/agent.toml": f'{LEAD}[capabilities]\nallow = ["city.admin"]\n'}
    )
    _, session = busy(city, "rival")
    output = output_of(
        city,
        f"city session stop {session} && city agent set ally description=Set"
        " && city session new rival && city reload && city restart",
    )
    assert output.endswith("code 0\n"), output
    assert city.store.session(session).state == STOPPED  # type: ignore[union-attr]
    assert 'description = "Set"' in (city.root / "agents/ally/agent.toml").read_text()


@pytest.mark.parametrize("allow", ['["*"]', '["city.*"]', '["city"]', "[]"])
def test_no_pattern_grants_a_word_of_the_city(city: RunningCity, allow: str) -> None:
    city.write({**FILES, "agents/lead/agent.toml": f"{LEAD}[capabilities]\nallow = {allow}\n"})
    assert NOT_HERE in output_of(city, "city reload")


def test_a_denied_word_is_not_granted(city: RunningCity) -> None:
    words = 'allow = ["city.admin"]\ndeny = ["city.control"]\n'
    city.write({**FILES, "agents/lead/agent.toml": f"{LEAD}[capabilities]\n{words}"})
    assert NOT_HERE in output_of(city, "city reload")


# Modes


def test_a_session_cannot_sling_to_a_primary_agent(city: RunningCity) -> None:
    city.write({**FILES, "agents/ally/agent.toml": f'mode = "primary"\n{PLAIN}'})
    for command in ("sling ally 'echo no'", "session new ally"):
        assert "`ally` is only for users [not-for-agents]" in output_of(city, f"city {command}")
    assert city.run("sling", "ally", "echo yes").code == 0


def test_a_user_slings_to_a_subagent_only_anyway(city: RunningCity) -> None:
    city.write({**FILES, "agents/ally/agent.toml": f'mode = "subagent"\n{PLAIN}'})
    for command in (("sling", "ally", "echo yes"), ("session", "new", "ally")):
        ran = city.run(*command)
        assert ran.code == 1
        assert "`ally` is only for other agents [not-for-people]" in ran.err
        assert "city agent set ally mode=all" in ran.err
        assert city.run(*command, "--anyway").code == 0
    assert output_of(city, "city sling ally 'echo yes'").endswith("code 0\n")


def test_the_parent_of_delegated_work_cannot_be_chosen(city: RunningCity) -> None:
    """Else a session could escape the limits of delegation."""
    id = city.sling("CITY_WORK_ID=w-99 city sling ally 'true'", "lead")
    city.settled(id)
    [child] = city.store.list_work(agent="ally")
    assert (child.parent, child.depth) == (id, 1)


def test_a_session_does_not_start_the_controller(city: RunningCity) -> None:
    go = city.root / "go"
    id = city.sling(
        f"while ! test -e {go}; do sleep 0.01; done; city sling ally true --json", "lead"
    )
    city.running(id)
    assert city.run("stop", "--keep-sessions").code == 0
    go.touch()
    item = city.until(lambda: city.store.list_work(agent="ally"))
    assert item[0].status == "open"
    city.until(lambda: "no-controller" in city.log(id))
    city.start()
    city.settled(item[0].id)


def test_json_of_a_refused_command_is_an_object_with_problems(city: RunningCity) -> None:
    output = output_of(city, "city stop --json")
    [problem] = json.loads(output.rpartition("code")[0])["problems"]
    assert problem["code"] == "not-from-a-session"
    assert "city.control" in problem["hint"]
