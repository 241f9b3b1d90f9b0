"""A directory in memory: what the deciding code is asked about, without any disk."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gascity.model.plan import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    DOCUMENT,
    FILE,
    LINK,
    OTHER,
    Entry,
    Found,
    Held,
    Shape,
    Wanted,
    digest,
)
from gascity.plan.ground import Choices, Ground, Outcome
from gascity.plan.steps import decide

CLAUDE = Shape("claude", "json", ("mcpServers",))
CODEX = Shape("codex", "toml", ("mcp_servers",))


class Thing(NamedTuple):
    """What stands at a path."""

    kind: str = FILE
    data: bytes = b""
    mode: int = 0o644
    target: str = ""


PIPE = Thing(OTHER)
FOLDER = Thing(DIRECTORY)


def link_to(target: str) -> Thing:
    return Thing(LINK, target=target)


def file(path: str, text: str, *, source: str = "", mode: int = 0o644, agent: str = "a") -> Wanted:
    """A file that should stand there."""
    home = source or f"overlay/{path}"
    return Wanted(path, FILE, home, "city", (agent,), mode, data=text.encode())


def link(path: str, target: str, *, agent: str = "a") -> Wanted:
    return Wanted(path, LINK, f"skills/{path}", "city", (agent,), target=target)


def document(
    path: str,
    settings: Mapping[str, object] | None = None,
    *,
    servers: Mapping[str, Mapping[str, object]] | None = None,
    shape: Shape = CLAUDE,
    mode: int = 0o644,
    agent: str = "a",
) -> Wanted:
    """A file of which single keys should be ours."""
    entries = {
        name: Entry(value, f"mcp/{name}.toml", "city") for name, value in (servers or {}).items()
    }
    one = Wanted(path, DOCUMENT, f"overlay/{path}", "city", (agent,), mode, settings=settings)
    return one._replace(shape=shape, entries=entries) if servers else one


class Plot:
    """Things by path, and what we wrote among them."""

    def __init__(
        self,
        things: Mapping[str, str | Thing] | None = None,
        *,
        tracked: Iterable[str] = (),
        coverable: Iterable[str] = (),
    ) -> None:
        self.things: dict[str, Thing] = {}
        self.held: dict[str, Held] = {}
        self.tracked = frozenset(tracked)
        self.coverable = frozenset(coverable)
        self.originals: dict[str, tuple[bytes, int]] = {}
        for path, thing in (things or {}).items():
            self.put(path, thing)

    def put(self, path: str, thing: str | Thing) -> None:
        """Somebody else puts something there."""
        self.things[path] = Thing(FILE, thing.encode()) if isinstance(thing, str) else thing

    def text(self, path: str) -> str:
        return self.things[path].data.decode()

    def found(self, path: str) -> Found:
        head = path.rpartition("/")[0]
        while head:
            if head in self.things and self.things[head].kind != DIRECTORY:
                return Found(BLOCKED, target=head)
            head = head.rpartition("/")[0]
        if path in self.things:
            thing = self.things[path]
            return Found(thing.kind, thing.mode if thing.kind == FILE else 0, target=thing.target)
        below = any(other.startswith(f"{path}/") for other in self.things)
        return Found(DIRECTORY if below else ABSENT)

    def plan(
        self,
        *wanted: Wanted,
        force: bool = False,
        adopt: bool = False,
        whose: Iterable[str] | None = None,
    ) -> Outcome:
        """What to do so that just this stands there."""
        ground = Ground(
            found=self.found,
            is_still=lambda *_: False,
            read=lambda path: self.things[path].data,
            source=lambda one: one.data or b"",
            original=self.originals.get,
            shown=lambda path: path,
            tracked=self.tracked,
            coverable=self.coverable - self.held.keys(),
        )
        asked = frozenset(whose) if whose is not None else None
        by_path = {one.path: one for one in wanted}
        return decide(by_path, self.held, ground, Choices(force, adopt), asked)

    def do(self, outcome: Outcome) -> Outcome:
        """Make a plan true; it has to be one for things as they are."""
        self.held = dict(outcome.records)
        for step in sorted(outcome.steps, key=lambda s: bool(s.change and s.change.kind != ABSENT)):
            change = step.change
            if change is None:
                continue
            assert self.found(step.path) == change.expected
            if change.kind == ABSENT:
                del self.things[step.path]
            else:
                self.things[step.path] = Thing(
                    change.kind, change.data or b"", change.mode, change.target
                )
            if step.held is not None and change.kind == FILE:
                assert change.data is not None
                self.held[step.path] = step.held._replace(sha256=digest(change.data))
        return outcome

    def apply(self, *wanted: Wanted, force: bool = False, adopt: bool = False) -> list[str]:
        """Plan and do; what was done or kept, a line each."""
        return said(self.do(self.plan(*wanted, force=force, adopt=adopt)))


def said(outcome: Outcome) -> list[str]:
    """`write CLAUDE.md`, `keep notes.md: it was there before`, in the order of paths."""
    return [
        f"{step.op} {step.path}" + (f": {step.reason}" if step.reason else "")
        for step in sorted(outcome.steps, key=lambda step: step.path)
    ]
