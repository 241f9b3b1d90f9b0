"""Plan, apply and undo in a real directory with a real ledger, without a city."""

from collections.abc import Callable
from pathlib import Path

from gascity.model.wanted import WantedPath
from gascity.workdir.decide.context import Choices, DiskState, PlanDecision
from gascity.workdir.decide.steps import decide
from gascity.workdir.write.directory import Directory
from gascity.workdir.write.execute import ApplyState, ExecuteResult, execute
from gascity.workdir.write.ledger import Ledger
from gascity.workdir.write.recover import recover
from gascity.workdir.write.undo import UndoResult, undo


class Bench:
    """`bench.apply(file("a", "text"))` in the directory `root`, with the ledger beside it."""

    def __init__(self, home: Path, root: Path | None = None) -> None:
        self.root = root or home / "work"
        self.home = home
        self.apply_state = ApplyState.of(str(home))
        self.runs = 0

    def plan(self, *wanted: WantedPath, force: bool = False, adopt: bool = False) -> PlanDecision:
        held = self.ledger.paths
        with Directory(str(self.root)) as directory:
            disk = DiskState(
                path_state=directory.state,
                unchanged=directory.matches,
                read=directory.read,
                wanted_content=_source,
                tracked_original=lambda _: None,
                same_tree=lambda *_: False,
                shown=lambda path: path,
                trusted_before=self.ledger.written - 20_000_000,
            )
            return decide({one.path: one for one in wanted}, held, disk, Choices(force, adopt))

    def apply(
        self,
        *wanted: WantedPath,
        force: bool = False,
        adopt: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> ExecuteResult:
        """Plan, call `meanwhile`, then execute the plan."""
        self.runs += 1
        with self.apply_state.ledgers.locked(str(self.root)):
            recover(self.apply_state, str(self.root))
            ledger = self.ledger
            outcome = self.plan(*wanted, force=force, adopt=adopt)
            meanwhile()
            done = execute(
                self.apply_state,
                ledger,
                outcome.steps,
                outcome.records,
                f"run {self.runs:04d}",
                lambda *_: None,
            )
            assert done.ledger is not None
            self.apply_state.ledgers.write(done.ledger)
            return done

    def undo(self) -> UndoResult | None:
        """Undo the last apply; None if there is none."""
        record = self.apply_state.journal.last(str(self.root))
        if record is None:
            return None
        with self.apply_state.ledgers.locked(str(self.root)):
            return undo(self.apply_state, record, lambda ledger: ledger)[0]

    @property
    def ledger(self) -> Ledger:
        return self.apply_state.ledgers.read(str(self.root))


def _source(one: WantedPath) -> bytes:
    return one.data if one.data is not None else Path(one.copy_of).read_bytes()
