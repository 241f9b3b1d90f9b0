"""Another process that uses the store: `python -m tests.store.second_process WORD ROOT …`.

It says `ready` when it is, and goes on when its standard input is closed or has a line.
"""

import json
import sys
from collections.abc import Callable

from gascity.model.work import DONE, ClaimToken
from gascity.store import open_store
from tests.store.records import AGENT, put


def wait() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def claim(root: str, session: str) -> None:
    """Claim and finish work until none is left; print the ids."""
    store = open_store(root, relaxed=True)
    token, got = ClaimToken(session, 1), []
    wait()
    while work := store.claim(token, 2.0, agent=AGENT):
        got.append(work.id)
        store.finish(work.id, DONE, None, 3.0, token=token)
    print(json.dumps(got))


def hold(root: str) -> None:
    """Wait in the middle of a transaction."""
    store = open_store(root, relaxed=True)
    with store.transaction():
        put(store, title="half done")
        wait()


def write(root: str) -> None:
    """Write once after the signal."""
    store = open_store(root, relaxed=True)
    wait()
    put(store, title="from outside")
    print("done", flush=True)
    sys.stdin.readline()


def create(root: str) -> None:
    """Create a store."""
    wait()
    put(open_store(root, relaxed=True))


DEEDS: dict[str, Callable[..., None]] = {
    "claim": claim,
    "hold": hold,
    "write": write,
    "create": create,
}

if __name__ == "__main__":
    DEEDS[sys.argv[1]](*sys.argv[2:])
