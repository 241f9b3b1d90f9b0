"""A city in a git repository whose processes are killed at random, and what must hold afterwards.

Every item starts a detached child that commits the item's name, so that a child that outlives its
run commits too late, on whatever branch its directory has by then. Each attempt first looks for
live processes of earlier attempts at the same item. So three numbers must stay zero: overlaps,
branches with two commits of their item, and commits on another item's branch.
"""

import contextlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gascity.ancestry import TERMINALS, city_part, make_mark
from gascity.control.client import controller_state, send_request
from gascity.control.decide.outcome import LONGEST_WAIT
from gascity.runtimes import proc
from gascity.runtimes.tmux import TmuxRuntime
from gascity.store.port import StoreError
from tests.support.forkserver import gone
from tests.support.git import git, repository
from tests.support.running import POOL, RunningCity

KINDS = ("controller", "client", "leader", "child", "git", "tmux")
HANG, FULL, VANISH = "hang", "full", "vanish"
_QUEUED = 12  # items that are kept waiting
TERMINAL = """\
[[named_session]]
template = "chat"
mode = "always"
[providers.talk]
command = "sh"
args = ["-c", "echo '> '; exec cat"]
ready_prompt_prefix = "> "
interactive = true
prompt_mode = "none"
"""
_ITEM = """\
name=$1 gate=$2
started() { cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null; }
if [ -e "$gate/$name.pids" ]; then
    while read -r pid ticks; do
        [ "$(started "$pid")" = "$ticks" ] || continue
        case $(cut -d ' ' -f 3 "/proc/$pid/stat" 2>/dev/null) in
        '' | Z | X) ;;
        *) echo "$name $pid" >> "$gate/overlaps" ;;
        esac
    done < "$gate/$name.pids"
fi
echo "$$ $(started $$)" >> "$gate/$name.pids"
case $(($$ % 3)) in
0) setsid sh "$gate/child.sh" "$name" "$gate" $$ & ;;
1) setsid -f env -i PATH="$PATH" HOME="$HOME" sh "$gate/child.sh" "$name" "$gate" $$ ;;
2) sh "$gate/child.sh" "$name" "$gate" $$ & ;;
esac
tries=0
until [ -e "$gate/$name.$$" ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || exit 1 # its child was killed
    sleep 0.02
done
exit "$(cat "$gate/$name.$$")"
"""
_CHILD = """\
name=$1 gate=$2
echo "$$ $(cut -d ' ' -f 22 /proc/$$/stat)" >> "$gate/$name.pids"
sleep 0.1
code=0
if ! git log --format=%s main..HEAD | grep -qx "$name"; then
    rm -f "$(git rev-parse --git-path index.lock)"
    echo "$name" > "$name"
    git add "$name" && git -c user.name=x -c user.email=x@x commit -qm "$name" || code=1
fi
echo $code > "$gate/$name.$3.new"
mv "$gate/$name.$3.new" "$gate/$name.$3"
"""


class StormReport(NamedTuple):
    """Numbers of one storm; the first three must be zero."""

    overlaps: int
    double_commits: int
    foreign_commits: int
    repeated: int  # items with commits of two attempts, each on its own branch
    left: int  # processes that nothing accounts for
    kills: dict[str, int]
    items: dict[str, int]  # by status


class KillStorm:
    """Kills processes of a busy city; `calm` lets it finish."""

    def __init__(self, place: Path, root: Path | None = None, seed: int = 1) -> None:
        self.gate = place / "gate"
        self.gate.mkdir()
        self.rig = repository(place / "rig", {"file": "content\n"})
        (self.gate / "item.sh").write_text(_ITEM)
        (self.gate / "child.sh").write_text(_CHILD)
        self.city = RunningCity(root or place / "town")
        self.tmux = shutil.which("tmux") is not None
        terminal = {"agents/chat/agent.toml": 'provider = "talk"\n'} if self.tmux else {}
        settings = POOL.format(4) + '[session]\nshutdown_timeout = "200ms"\n'
        self.city.write(
            {
                "city.toml": f'{settings}[[rigs]]\nname = "rig"\npath = "{self.rig}"\n'
                f"{TERMINAL if self.tmux else ''}",
                **terminal,
                "agents/chat/prompt.md": "Repeat.\n",
            }
        )
        assert self.city.store.list_work() == []
        self.log = place / "controller.log"
        self.chance = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.clients: list[int] = []
        self.slung = 0

    # The storm

    def rage(self, kills: int, faults: tuple[str, ...] = ()) -> None:
        """Kill that many processes, and let each fault happen at some moment in between."""
        moments = {kills * (at + 1) // (len(faults) + 1): fault for at, fault in enumerate(faults)}
        last = -1
        while (done := self.kills.total()) < kills:
            self._keep_busy()
            if done in moments and done != last:
                last = done
                getattr(self, f"_{moments[done]}")()
            time.sleep(self.chance.uniform(0.0, 0.05))  # chaos is no condition to wait for
            self._kill(self.chance.choice(KINDS))

    def _keep_busy(self) -> None:
        self.city.keep_controller(self.log)
        self.clients = [pid for pid in self.clients if not gone(pid)]
        try:
            waiting = self.city.store.work_counts()["open"]
        except StoreError:
            return
        if len(self.clients) < 3 and waiting < _QUEUED:
            self.slung += 1
            text = f"sh {self.gate}/item.sh n{self.slung} {self.gate} # n{self.slung}"
            log = self.gate.parent / "clients.log"
            self.clients.append(self.city.forks("sling", "rig/shell", text, "--no-start", log=log))

    def _kill(self, kind: str) -> None:
        victims = list(self._victims(kind))
        if not victims:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.chance.choice(victims), signal.SIGKILL)
            self.kills[kind] += 1

    def _victims(self, kind: str) -> Iterator[int]:
        if kind == "controller":
            pid = controller_state(str(self.city.root)).pid
            yield from [pid] if pid else []
            return
        if kind == "client":
            yield from self.clients
            return
        mine = city_part(make_mark(str(self.city.root)))
        for process in proc.list_processes():
            marked = city_part(process.mark) == mine
            name = proc.program_name(process.pid)
            is_kind = {
                "leader": marked and process.pid == process.session and bool(process.owner),
                "child": marked and not (process.pid == process.session and process.owner),
                "git": name == "git" and self._is_near(process.pid),
                "tmux": name.startswith("tmux") and self._has_terminals(process.pid),
            }
            if (is_kind[kind] and name != "tmux: server") or (kind == "tmux" and is_kind[kind]):
                yield process.pid

    def _is_near(self, pid: int) -> bool:
        directory = proc.directory_of(pid)
        return directory.startswith((str(self.rig), str(self.city.root)))

    def _has_terminals(self, pid: int) -> bool:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return f"{TERMINALS}={self.city.root}".encode() in environ

    # Faults

    def _hang(self) -> None:
        """Stop the controller by a signal, sling past it, and replace it."""
        self._until_it_answers()
        pid = self.city.pid
        os.kill(pid, signal.SIGSTOP)
        self.city.forks.run("status")
        assert self.city.forks.run("restart").code == 0
        assert gone(pid)
        self.kills[HANG] += 1

    def _vanish(self) -> None:
        """Delete the store while the city works, and restore what the controller saved of it."""
        self._until_it_answers()
        pid = self.city.pid
        self.city.close()
        for name in ("city.db", "city.db-wal", "city.db-shm"):
            (self.city.root / ".gc" / name).unlink(missing_ok=True)
        while not gone(pid):
            send_request(str(self.city.root), {"op": "ping"})
            time.sleep(0.01)
        assert "[store-missing]" in self.city.forks.run("work", "list").printed
        done = self.city.forks.run("doctor", "--fix")
        assert self.city.forks.run("work", "list").code == 0, done.printed
        self.kills[VANISH] += 1

    def _full(self) -> None:
        """Fill the disk of the city for a moment. It must be a small one of its own."""
        filler = self.city.root / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        time.sleep(0.5)
        filler.unlink(missing_ok=True)
        self.kills[FULL] += 1

    def _until_it_answers(self) -> None:
        def answers() -> bool:
            self._keep_busy()
            return send_request(str(self.city.root), {"op": "ping"}, again=True) is not None

        self.city.until(answers)

    # Afterwards

    def calm(self) -> StormReport:
        """Let everything finish, and count what went wrong."""
        self.city.until(lambda: all(gone(pid) for pid in self.clients))
        self._until_it_answers()
        store = self.city.store
        waiting = ("open", "claimed")
        # Five lost runs in a row quarantine the agent for LONGEST_WAIT.
        self.city.until(lambda: not store.list_work(status=waiting), 2 * LONGEST_WAIT)
        assert self.city.forks.run("stop").code == 0
        assert store.integrity_errors() == []
        return StormReport(
            len(self._overlaps()),
            *self._commits(),
            len(self.city.leftovers()),
            dict(self.kills),
            {name: count for name, count in store.work_counts().items() if count},
        )

    def _overlaps(self) -> list[str]:
        file = self.gate / "overlaps"
        return file.read_text().splitlines() if file.exists() else []

    def _commits(self) -> tuple[int, int, int]:
        """Return the branches with two commits, commits on branches of others, and repeats.

        An attempt that was killed after its commit is repeated, on a branch of its own
        (`city/shell/rig-1-2`) if another session takes the item: that is a repeat, no overlap.
        """
        names = {work.id: work.body.rpartition("# ")[2] for work in self.city.store.list_work()}
        total: Counter[str] = Counter()
        double = foreign = 0
        listed = git(self.rig, "for-each-ref", "--format=%(refname:short)", "refs/heads/city")
        for branch in listed.split():
            subjects = git(self.rig, "log", "--format=%s", f"main..{branch}").split()
            id = "-".join(branch.rpartition("/")[2].split("-")[:2])
            double += len(subjects) != len(set(subjects))
            foreign += sum(subject != names.get(id) for subject in subjects)
            total.update(subjects)
        return double, foreign, sum(count > 1 for count in total.values())

    def end(self) -> None:
        for pid in self.clients:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.city.end()
        if self.tmux:
            TmuxRuntime(str(self.city.root), os.environ).close()
