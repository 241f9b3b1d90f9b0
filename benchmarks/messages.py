"""Let agents message each other while processes are killed, and count what is lost.

    python benchmarks/messages.py [--agents N] [--seconds S] [--clients N] [--json]

The agents are shells whose clients call `agents_message`, sync and async, through `city mcp serve`.
The controller, runs, clients and servers are killed at random. Exits with 1 if a message did not
end, was lost or queued twice, if an answer is wrong or not mailed once, or if a process is left.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Kill processes of agents that message each other."
    )
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=12, help="that run at the same time")
    parser.add_argument("--json", action="store_true", help="output JSON")
    asked = parser.parse_args()
    figures = storm(asked.agents, asked.seconds, asked.clients)
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(f"{name.replace('_', ' '):<18} {value}" for name, value in figures.items()))
    raise SystemExit(bool(figures["violations"]))


def storm(agents: int, seconds: float, clients: int) -> dict[str, object]:
    """Run a storm for that long; return its figures and violations."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.message_storm import MessageStorm

    with tempfile.TemporaryDirectory(prefix="city-messages-") as home:
        os.environ["HOME"] = home
        raging = MessageStorm(Path(home), agents, clients=clients, timeout=10)
        began = time.monotonic()
        try:
            raging.rage(lambda: time.monotonic() - began > seconds)
            report = raging.calm(longest=300)
        finally:
            raging.end()
    return {
        "violations": report.violations,
        "kills": report.kills,
        "messages": report.items,
        "answers": report.answers,
        "median_ms": round(statistics.median(report.waited)) if report.waited else None,
        "worst_ms": max(report.waited, default=None),
        "seconds": round(time.monotonic() - began, 1),
    }


if __name__ == "__main__":
    main()
