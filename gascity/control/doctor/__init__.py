"""Checks of a city's state on this machine, and their repairs, for `city doctor`.

A check looks at one thing and returns a Diagnosis: what is wrong, how to fix it and, if the fix is
safe, a function that makes it. `examine` runs the checks in order, so that a check may rely on what
an earlier one repaired, and looks again after a repair.
"""

from collections.abc import Callable, Iterator
from functools import partial

from gascity.control.doctor.diagnosis import Diagnosis, DoctorContext, DoctorResult
from gascity.control.doctor.file_checks import check_packs, check_schemas
from gascity.control.doctor.leftover_checks import check_branches, check_locks, check_processes
from gascity.control.doctor.machine_checks import check_clock, check_disk
from gascity.control.doctor.program_checks import (
    check_git,
    check_provider,
    check_python,
    check_tmux,
    used_providers,
)
from gascity.control.doctor.running_checks import check_controller, check_environment, check_waiting
from gascity.control.doctor.store_checks import check_backups, check_city_store
from gascity.model.problems import CityError, Problem
from gascity.runtimes import INTERACTIVE
from gascity.store.port import StoreError

_Check = Callable[[DoctorContext], Diagnosis]


def examine(context: DoctorContext, *, fix: bool) -> Iterator[DoctorResult]:
    """Run all checks; with `fix`, make the repairs that are safe."""
    for name, check in _checks(context):
        found = check(context)
        if not fix or found.repair is None:
            yield DoctorResult(name, found.message, found.fix, False, found.problems)
            continue
        try:
            done = found.repair()
        except StoreError as error:
            failed = Problem(error.code, error.message)
            yield DoctorResult(name, found.message, found.fix, False, (*found.problems, failed))
        except CityError as error:
            problems = (*found.problems, *error.problems)
            yield DoctorResult(name, found.message, found.fix, False, problems)
        else:
            left = check(context)
            yield DoctorResult(name, done, left.fix, not left.problems, left.problems)


def _checks(context: DoctorContext) -> Iterator[tuple[str, _Check]]:
    """Yield the checks with their names, the store before what reads it."""
    yield "python", check_python
    yield "git", check_git
    yield INTERACTIVE, check_tmux
    for name, users in used_providers(context).items():
        yield f"provider {name}", partial(check_provider, name=name, users=users)
    yield "store", check_city_store
    yield "backups", check_backups
    yield "controller", check_controller
    yield "environment", check_environment
    yield "sessions", check_waiting
    yield "processes", check_processes
    yield "locks", check_locks
    yield "branches", check_branches
    yield "packs", check_packs
    yield "schemas", check_schemas
    yield "disk", check_disk
    yield "clock", check_clock
