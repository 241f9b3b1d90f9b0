"""In-memory directory for testing the planning code without a disk."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gascity.model.plan import PathRecord, PathState
from gascity.model.wanted import (
    ABSENT,
    BLOCKED,
    DIRECTORY,
    DOCUMENT,
    FILE,
    LINK,
    OTHER,
    ServerEntry,
    Shape,
    WantedPath,
    digest,
)
from gascity.workdir.decide.context import Choices, DiskState, PlanDecision
from gascity.workdir.decide.steps import decide

CLAUDE = Shape("claude", "json", ("mcpServers",))
CODEX = Shape("codex", "toml", ("mcp_servers",))


class Thing(NamedTuple):
    """Kind and content of one path."""

    kind: str = FILE
    data: bytes = b""
    mode: int = 0o644
    target: str = ""


PIPE = Thing(OTHER)
FOLDER = Thing(DIRECTORY)


def link_to(target: str) -> Thing:
    return Thing(LINK, target=target)


def file(
    path: str, text: str, *, source: str = "", mode: int = 0o644, agent: str = "a"
) -> WantedPath:
    """Return a wanted file."""
    home = source or f"overlay/{path}"
    return WantedPath(path, FILE, home, "city", (agent,), mode, data=text.encode())


def link(path: str, target: str, *, agent: str = "a") -> WantedPath:
    return WantedPath(path, LINK, f"skills/{path}", "city", (agent,), target=target)


def document(
    path: str,
    settings: Mapping[str, object] | None = None,
    *,
    servers: Mapping[str, Mapping[str, object]] | None = None,
    shape: Shape = CLAUDE,
    mode: int = 0o644,
    agent: str = "a",
) -> WantedPath:
    """Return a wanted file in which city manages single keys."""
    entries = {
        name: ServerEntry(value, f"mcp/{name}.toml", "city")
        for name, value in (servers or {}).items()
    }
    one = WantedPath(path, DOCUMENT, f"overlay/{path}", "city", (agent,), mode, settings=settings)
    return one._replace(shape=shape, entries=entries) if servers else one


class FakeDirectory:
    """Contents by path, with the ledger of managed files."""

    def __init__(
        self,
        things: Mapping[str, str | Thing] | None = None,
        *,
        tracked: Iterable[str] = (),
        coverable: Iterable[str] = (),
    ) -> None:
        self.things: dict[str, Thing] = {}
        self.held: dict[str, PathRecord] = {}
        self.tracked = frozenset(tracked)
        self.coverable = frozenset(coverable)
        self.originals: dict[str, tuple[bytes, int]] = {}
        self.trees: dict[str, dict[str, str]] = {}  # directories outside, by their path
        for path, thing in (things or {}).items():
            self.put(path, thing)

    def put(self, path: str, thing: str | Thing) -> None:
        """Write a path as the user would, without a ledger record."""
        self.things[path] = Thing(FILE, thing.encode()) if isinstance(thing, str) else thing

    def text(self, path: str) -> str:
        return self.things[path].data.decode()

    def path_state(self, path: str) -> PathState:
        head = path.rpartition("/")[0]
        while head:
            if head in self.things and self.things[head].kind != DIRECTORY:
                return PathState(BLOCKED, target=head)
            head = head.rpartition("/")[0]
        if path in self.things:
            thing = self.things[path]
            return PathState(
                thing.kind, thing.mode if thing.kind == FILE else 0, target=thing.target
            )
        below = any(other.startswith(f"{path}/") for other in self.things)
        return PathState(DIRECTORY if below else ABSENT)

    def same_tree(self, path: str, target: str) -> bool:
        """Compare the things below a path with `trees`, the directories outside."""
        inside = f"{path}/"
        below = {
            name.removeprefix(inside): self.things[name].data.decode()
            for name in self.tracked
            if name.startswith(inside)
        }
        return bool(below) and self.trees.get(target) == below

    def plan(
        self,
        *wanted: WantedPath,
        force: bool = False,
        adopt: bool = False,
        whose: Iterable[str] | None = None,
    ) -> PlanDecision:
        """Return the plan that leaves exactly these files managed."""
        asked = frozenset(whose) if whose is not None else None
        by_path = {one.path: one for one in wanted}
        return decide(by_path, self.held, self.disk, Choices(force, adopt), asked)

    @property
    def disk(self) -> DiskState:
        return DiskState(
            path_state=self.path_state,
            unchanged=lambda *_: False,
            read=lambda path: self.things[path].data,
            wanted_content=lambda one: one.data or b"",
            tracked_original=self.originals.get,
            same_tree=self.same_tree,
            shown=lambda path: path,
            tracked=self.tracked,
            coverable=self.coverable - self.held.keys(),
        )

    def do(self, decision: PlanDecision) -> PlanDecision:
        """Execute a plan made for the current state."""
        self.held = dict(decision.records)
        for step in sorted(
            decision.steps, key=lambda s: bool(s.change and s.change.kind != ABSENT)
        ):
            change = step.change
            if change is None:
                continue
            assert self.path_state(step.path) == change.expected
            if change.kind == ABSENT:
                del self.things[step.path]
            else:
                self.things[step.path] = Thing(
                    change.kind, change.data or b"", change.mode, change.target
                )
            if step.record is not None and change.kind == FILE:
                assert change.data is not None
                self.held[step.path] = step.record._replace(sha256=digest(change.data))
        return decision

    def apply(self, *wanted: WantedPath, force: bool = False, adopt: bool = False) -> list[str]:
        """Plan and execute; return one line per step or kept path."""
        return step_lines(self.do(self.plan(*wanted, force=force, adopt=adopt)))


def step_lines(decision: PlanDecision) -> list[str]:
    """Return lines like `keep notes.md: not managed by city`, sorted by path."""
    return [
        f"{step.op} {step.path}" + (f": {step.reason}" if step.reason else "")
        for step in sorted(decision.steps, key=lambda step: step.path)
    ]
