"""A real directory and real books, without a city around them: plan, apply, undo."""

from collections.abc import Callable
from pathlib import Path

from gascity.apply.directory import Directory
from gascity.apply.ledger import Ledger
from gascity.apply.perform import Performed, Workshop, perform
from gascity.apply.recover import recover
from gascity.apply.undo import Undone, undo
from gascity.model.plan import Wanted
from gascity.plan.ground import Choices, Ground, Outcome
from gascity.plan.steps import decide


class Bench:
    """`bench.apply(file("a", "text"))` in the directory `root`, with the books beside it."""

    def __init__(self, home: Path, root: Path | None = None) -> None:
        self.root = root or home / "work"
        self.home = home
        self.shop = Workshop.of(str(home))
        self.runs = 0

    def plan(self, *wanted: Wanted, force: bool = False, adopt: bool = False) -> Outcome:
        held = self.ledger.paths
        with Directory(str(self.root)) as directory:
            ground = Ground(
                found=directory.found,
                is_still=directory.is_still,
                read=directory.read,
                source=_source,
                original=lambda _: None,
                shown=lambda path: path,
                settled=self.ledger.written - 20_000_000,
            )
            return decide({one.path: one for one in wanted}, held, ground, Choices(force, adopt))

    def apply(
        self,
        *wanted: Wanted,
        force: bool = False,
        adopt: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Performed:
        """Plan, let something happen, and do what was planned."""
        self.runs += 1
        with self.shop.ledgers.locked(str(self.root)):
            recover(self.shop, str(self.root))
            ledger = self.ledger
            outcome = self.plan(*wanted, force=force, adopt=adopt)
            meanwhile()
            done = perform(
                self.shop,
                ledger,
                outcome.steps,
                outcome.records,
                f"run {self.runs:04d}",
                lambda *_: None,
            )
            assert done.ledger is not None
            self.shop.ledgers.write(done.ledger)
            return done

    def undo(self) -> Undone | None:
        """Undo the last apply; None if there is none."""
        record = self.shop.journal.last(str(self.root))
        if record is None:
            return None
        with self.shop.ledgers.locked(str(self.root)):
            return undo(self.shop, record, lambda ledger: ledger)[0]

    @property
    def ledger(self) -> Ledger:
        return self.shop.ledgers.read(str(self.root))


def _source(one: Wanted) -> bytes:
    return one.data if one.data is not None else Path(one.copy_of).read_bytes()
