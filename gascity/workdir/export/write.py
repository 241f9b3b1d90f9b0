"""Writes exported files to a directory, as `apply` writes a working directory.

A ledger of its own, one per format and directory, says which files are managed. A file without a
record, or one that the user changed, is kept; a managed one that is no longer exported is removed.
The journal makes an export that is killed safe: the next one recovers it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gascity.model.plan import KEEP, PathRecord, Step
from gascity.model.problems import Problem
from gascity.model.wanted import FILE, WantedPath
from gascity.workdir.decide.context import Choices, DiskState, PlanDecision
from gascity.workdir.decide.steps import decide
from gascity.workdir.write.directory import Directory
from gascity.workdir.write.execute import ApplyState, execute
from gascity.workdir.write.ledger import Ledger, SyncState
from gascity.workdir.write.recover import recover

_CHANGED = "changed during the export; run it again"


class ExportPlace(NamedTuple):
    """Target of an export: a directory, and the name of its ledger."""

    city: str
    use: str  # such as `export-copilot`
    root: str


class ExportScope(NamedTuple):
    """Scope of an export: records of other agents stay unchanged."""

    selected: frozenset[str] | None = None  # None: all agents
    broken: frozenset[str] = frozenset()  # agents whose files stay until they can be exported
    incomplete: bool = False  # the city has errors, so nothing is removed


class ExportOutcome(NamedTuple):
    """The operation and the reason of each path, and the agents of removed ones."""

    steps: Mapping[str, Step]
    former: Mapping[str, tuple[str, ...]]
    problems: tuple[Problem, ...] = ()

    @property
    def differs(self) -> bool:
        return bool(self.steps)


def plan_export(
    place: ExportPlace, wanted: Iterable[WantedPath], scope: ExportScope, choices: Choices
) -> ExportOutcome:
    """Return what an export would do."""
    state = ApplyState.of(place.city, place.use)
    ledger = state.ledgers.read(place.root)
    return _outcome(ledger, _decide(ledger, list(wanted), scope, choices))


def write_export(
    place: ExportPlace,
    wanted: Iterable[WantedPath],
    scope: ExportScope,
    choices: Choices,
    run: str,
) -> ExportOutcome:
    """Write an export while holding the directory's lock; `run` names it in the journal."""
    state = ApplyState.of(place.city, place.use)
    with state.ledgers.locked(place.root):
        recover(state, place.root)
        ledger = state.ledgers.read(place.root)
        decision = _decide(ledger, list(wanted), scope, choices)
        result = execute(state, ledger, decision.steps, decision.records, run, lambda *_: None)
        new = result.ledger or ledger
        # Exported files are meant to be committed, so git's excludes do not change.
        state.ledgers.write(new._replace(synced=SyncState()))
    outcome = _outcome(ledger, decision)
    kept = {
        step.path: step._replace(op=KEEP, reason=_CHANGED, change=None) for step in result.conflicts
    }
    problems = outcome.problems
    if result.error:
        where, reason = result.error.filename or place.root, result.error.strerror
        hint = "fix this and run the export again; it continues where it stopped"
        problems = (*problems, Problem("refused", f"{where}: {reason}", None, hint))
    done = {step.path for step in result.done}
    steps = {path: step for path, step in outcome.steps.items() if step.op == KEEP or path in done}
    return outcome._replace(steps=steps | kept, problems=problems)


def _decide(
    ledger: Ledger, wanted: Sequence[WantedPath], scope: ExportScope, choices: Choices
) -> PlanDecision:
    by_path = {path.path: path for path in wanted}
    free = {
        path: record
        for path, record in ledger.paths.items()
        if _is_free(path, record, by_path, scope)
    }
    with Directory(ledger.root) as directory:
        disk = DiskState(
            path_state=directory.state,
            unchanged=directory.matches,
            read=directory.read,
            wanted_content=_content,
            tracked_original=lambda _: None,
            same_tree=lambda *_: False,
            shown=lambda path: f"{ledger.root}/{path}",
        )
        decision = decide(by_path, free, disk, choices, scope.selected)
    decision.records |= {path: r for path, r in ledger.paths.items() if path not in free}
    return decision


def _is_free(
    path: str, record: PathRecord, wanted: Mapping[str, WantedPath], scope: ExportScope
) -> bool:
    """Return whether the export decides about a recorded path."""
    if path in wanted:
        return True
    return not scope.incomplete and scope.broken.isdisjoint(record.agents)


def _content(wanted: WantedPath) -> bytes:
    if wanted.data is not None:
        return wanted.data
    with open(wanted.copy_of, "rb") as file:
        return file.read()


def _outcome(ledger: Ledger, decision: PlanDecision) -> ExportOutcome:
    steps = {step.path: step for step in decision.steps}
    former = {path: ledger.paths[path].agents for path in steps if path in ledger.paths}
    return ExportOutcome(steps, former, tuple(decision.problems))


def wanted_file(path: str, text: str, agents: tuple[str, ...], layer: str) -> WantedPath:
    """Return a generated file that an export writes."""
    return WantedPath(path, FILE, ", ".join(agents), layer, agents, data=text.encode())
