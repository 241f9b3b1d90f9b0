"""Measure `city mcp serve`, which runs alongside every session, against its targets.

    python benchmarks/mcp_serve.py [--rounds N] [--json]

Time from its start until `initialize` is answered, in starts of `python -c pass`; resident memory
after a call; and what a sync message takes longer than `city sling --wait` with the same command.
Exits with 1 if a target is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

STARTS, MEMORY, MESSAGE = 6.0, 20.0, 50.0  # starts of Python, MB, milliseconds
_CITY = (sys.executable, "-P", "-m", "gascity")


class Server:
    """A server for a user, in a city."""

    def __init__(self, root: str) -> None:
        command = [*_CITY, "mcp", "serve", "--as", "human"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe)
        self._last = 0

    def request(self, method: str, params: dict[str, object]) -> dict[str, object]:
        """Send a request and return its answer."""
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, object] = json.loads(self.process.stdout.readline())
        return answer

    def call(self, tool: str, arguments: dict[str, object]) -> dict[str, object]:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def resident(self) -> float:
        """Return its resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [kilobytes] = [line.split()[1] for line in status.splitlines() if line[:6] == "VmRSS:"]
        return int(kilobytes) / 1000

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def milliseconds(rounds: int, job: Callable[[], object]) -> float:
    """Return the median duration of a job, which also runs once before."""
    job()
    durations = []
    for _ in range(rounds):
        began = time.perf_counter()
        job()
        durations.append((time.perf_counter() - began) * 1000)
    return statistics.median(durations)


def ready(root: str) -> None:
    """Start a server, and end it when it has answered `initialize`."""
    server = Server(root)
    server.request("initialize", {})
    server.process.kill()
    server.process.wait()


def measure(root: str, rounds: int) -> dict[str, float]:
    python = milliseconds(rounds, lambda: subprocess.run([sys.executable, "-c", "pass"]))
    first_answer = milliseconds(rounds, lambda: ready(root))
    server = Server(root)
    server.request("initialize", {})
    idle = server.resident()
    message: dict[str, object] = {"agentId": "shell", "content": "true"}
    by_tool = milliseconds(rounds, lambda: server.call("agents_message", message))
    after = server.resident()
    server.end()
    sling = [*_CITY, "sling", "shell", "true", "--wait", "--session", "latest-or-create"]
    quiet = subprocess.DEVNULL
    by_sling = milliseconds(
        rounds, lambda: subprocess.run(sling, cwd=root, stdout=quiet, stderr=quiet, check=True)
    )
    return {
        "initialize_starts": round(first_answer / python, 2),
        "initialize_ms": round(first_answer, 1),
        "resident_mb": round(idle, 1),
        "resident_after_messages_mb": round(after, 1),
        "message_ms": round(by_tool, 1),
        "sling_ms": round(by_sling, 1),
        "message_more_ms": round(by_tool - by_sling, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure `city mcp serve`.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="output JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="city-mcp-") as home:
        os.environ["HOME"] = home
        Path(home, "city.toml").write_text("")
        # Without a controller, a server loads the city itself; sessions have one.
        subprocess.run([*_CITY, "start"], cwd=home, stdout=subprocess.DEVNULL, check=True)
        try:
            figures = measure(home, asked.rounds)
        finally:
            subprocess.run([*_CITY, "stop"], cwd=home, stdout=subprocess.DEVNULL)
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(f"{name.replace('_', ' '):<28} {value}" for name, value in figures.items()))
    missed = (
        figures["initialize_starts"] > STARTS
        or max(figures["resident_mb"], figures["resident_after_messages_mb"]) > MEMORY
        or figures["message_more_ms"] > MESSAGE
    )
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
