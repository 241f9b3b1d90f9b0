"""Files of the city: packs.lock and the pack cache, and the schemas that editors use."""

import os

from gascity.control.doctor.diagnosis import Diagnosis, DoctorContext
from gascity.files import locked, write_file
from gascity.model.problems import warning
from gascity.packs.graph import edges, unused
from gascity.resources import package_dir
from gascity.source.disk import Disk, read_plain
from gascity.source.lock import LOCK, read_lock

_INSTALL = "city pack install"
_SCHEMAS = ".gc/schemas"


def check_packs(context: DoctorContext) -> Diagnosis:
    """Check that every import is locked, installed and unchanged."""
    city = context.city
    if city is None:
        return Diagnosis("unknown: the city cannot be read", context.city_errors, "city check")
    disk = Disk(city.root)
    locks = read_lock(disk)
    targets = {target.place for _, target, _ in edges(city.pack, city.rig_imports)}
    problems = [p for p in city.all_problems if p.is_error and p.place in targets]
    problems += disk.problems
    for lock in unused(city.pack, city.rig_imports, locks):
        text = f"{LOCK} has `{lock.binding}` from {lock.source}, which is no longer imported"
        problems.append(warning("lock-stale", text, None, f"run `{_INSTALL}` to remove it"))
    message = f"imports: {len(targets)}, locked: {len(locks)}"
    return Diagnosis(message, tuple(problems), _INSTALL if problems else "")


def check_schemas(context: DoctorContext) -> Diagnosis:
    """Check that the schemas for editors are those of this version; write them if not."""
    source, target = package_dir("schemas"), f"{context.root}/{_SCHEMAS}"
    if not os.path.isdir(target):
        return Diagnosis("not written yet; `city apply` does it")
    names = sorted(os.listdir(source))
    outdated = [
        name for name in names if read_plain(f"{source}/{name}") != read_plain(f"{target}/{name}")
    ]
    if not outdated:
        return Diagnosis(f"{len(names)} up to date")
    text = f"{_SCHEMAS} has schemas of another version: {', '.join(outdated)}"
    problem = warning("schemas-outdated", text, None, "run `city doctor --fix`")

    def repair() -> str:
        with locked(context.root):
            for name in outdated:
                write_file(f"{target}/{name}", read_plain(f"{source}/{name}") or b"", 0o644)
        return f"wrote schemas: {len(outdated)}"

    return Diagnosis("of another version", (problem,), "city doctor --fix", repair)
