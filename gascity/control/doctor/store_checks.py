"""The store and its backups: integrity, size and age, and how a lost store is restored."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from gascity.control.client import controller_state, send_request
from gascity.control.doctor.diagnosis import Diagnosis, DoctorContext, moment, size_text
from gascity.control.lost_store import check_store
from gascity.control.server import acquire_lock
from gascity.model.problems import CityError, Problem, warning
from gascity.model.work import CLAIMED, OPEN
from gascity.store import (
    back_up_store,
    is_sound,
    list_backups,
    move_store_away,
    open_store,
    restore_store,
    store_created,
    store_exists,
    store_size,
)
from gascity.store.port import StoreError

_DAY = 86400.0
_EXIT_TIMEOUT = 5.0  # seconds until a controller without a store exits
_NEW_STORE = "city start --new-store"


def check_city_store(context: DoctorContext) -> Diagnosis:
    """Check that the store exists and is sound; repair it from the newest sound backup."""
    root = context.root
    try:
        check_store(root, context.environ)
        if not store_exists(root):
            return Diagnosis("no work yet, so there is no store")
        with closing(open_store(root)) as store:
            errors = store.integrity_errors()
            counts = store.work_counts()
    except StoreError as error:
        if error.code not in ("store-missing", "store-broken"):
            return Diagnosis("cannot be checked", (Problem(error.code, error.message),))
        return _lost(context, Problem(error.code, error.message))
    if errors:
        return _lost(context, Problem("store-broken", f"the store is damaged: {errors[0]}"))
    size = size_text(store_size(root))
    return Diagnosis(f"sound; work items: {sum(counts.values())}, {size}")


def _lost(context: DoctorContext, problem: Problem) -> Diagnosis:
    what = "missing" if problem.code == "store-missing" else "damaged"
    _await_rescue(context.root)
    backup = next(filter(is_sound, list_backups(context.root)), None)
    if backup is None:
        message = f"{what}, and there is no backup"
        hint = f"`{_NEW_STORE}` creates an empty store; branches and directories stay"
        return Diagnosis(message, (problem._replace(hint=hint),), _NEW_STORE)
    at = moment(backup.at)
    message = f"{what}; the newest backup is from {at}"
    hint = f"`city doctor --fix` restores it; `{_NEW_STORE}` creates an empty store"

    def restore() -> str:
        with _exclusive(context.root):
            kept = move_store_away(context.root, time.time())
            restore_store(context.root, backup)
        with closing(open_store(context.root)) as store:
            counts = store.work_counts()
        waiting = counts[OPEN] + counts[CLAIMED]
        done = f"restored the backup from {at}"
        if waiting:
            done += (
                f"; {waiting} work items are unfinished in it and start again with the controller"
                ": cancel those that were finished since"
            )
        return f"{done}; the previous files are in {kept}" if kept else done

    return Diagnosis(message, (problem._replace(hint=hint),), "city doctor --fix", restore)


def new_store(root: str) -> str:
    """Create an empty store in place of a missing or damaged one; return where that was moved.

    Raises CityError if the city has a sound store.
    """
    with _exclusive(root):
        if store_exists(root) and not _is_damaged(root):
            message = "the city has a sound store; it is not replaced"
            raise CityError(Problem("store-exists", message, None, "leave out --new-store"))
        kept = move_store_away(root, time.time())
        open_store(root, new=True).close()
    return kept


def _is_damaged(root: str) -> bool:
    try:
        with closing(open_store(root)) as store:
            return bool(store.integrity_errors())
    except StoreError as error:
        if error.code != "store-broken":
            raise
        return True


def _await_rescue(root: str) -> None:
    """Wake a controller that sleeps and has not noticed that its store was deleted.

    It saves the store's content and exits.
    """
    if controller_state(root).running and not store_exists(root):
        send_request(root, {"op": "ping"})
        end = time.monotonic() + _EXIT_TIMEOUT
        while controller_state(root).running and time.monotonic() < end:
            time.sleep(0.01)


@contextmanager
def _exclusive(root: str) -> Iterator[None]:
    """Hold the controller lock: no controller runs, and none can start."""
    _await_rescue(root)
    lock = acquire_lock(root)
    try:
        yield
    finally:
        lock.release()


def check_backups(context: DoctorContext) -> Diagnosis:
    """Check that there is a recent backup of the store."""
    root = context.root
    if not store_exists(root):
        return Diagnosis("no store to back up")
    backups = list_backups(root)
    now = time.time()
    message = f"{len(backups)}; newest from {moment(backups[0].at)}" if backups else "none yet"
    newest = max((backup.at for backup in backups), default=store_created(root) or now)
    if now - newest < 2 * _DAY:
        return Diagnosis(message)
    problem = warning(
        "store-not-backed-up",
        f"the store has not been backed up since {moment(newest)}",
        None,
        "the controller does it daily while it runs; `city doctor --fix` does it now",
    )

    def repair() -> str:
        return f"backed up to {back_up_store(root, now).path}"

    return Diagnosis(message, (problem,), "city doctor --fix", repair)
