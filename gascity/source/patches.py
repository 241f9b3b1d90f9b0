"""Patches wherever they stand, and the words manifests share when something has the wrong shape."""

from gascity.model.layers import PACK_PATCH, Layer
from gascity.model.pack import Patch
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.records import NamedTuple
from gascity.source.agents import decode_agent, is_path
from gascity.source.decode import describe
from gascity.source.disk import Disk

_TARGET = frozenset(("name", "agent", "dir", "rig"))


class FileSource(NamedTuple):
    """Where the file being read stands."""

    disk: Disk
    path: str
    pack: str
    kind: str

    @property
    def file(self) -> str:
        return self.disk.shown(self.path)


def wrong_type(source: FileSource, at: KeyPath, wanted: str, value: object) -> Problem:
    name = ".".join(str(part) for part in at if isinstance(part, str))
    return Problem(
        "bad-type", f"`{name}` should be {wanted}, not {describe(value)}", Place(source.file, at)
    )


def bad_name(source: FileSource, name: str, at: KeyPath, *, of_value: bool = False) -> Problem:
    return Problem(
        "bad-name",
        f"`{name}` cannot be a name here",
        Place(source.file, at, of_value=of_value),
        "use letters, digits, - and _, beginning with a letter or digit",
    )


def patch_list(
    source: FileSource,
    problems: list[Problem],
    entries: object,
    at: KeyPath,
    kind: str,
    target: str,
) -> list[Patch]:
    if entries is None:
        return []
    if not isinstance(entries, list):
        name = ".".join(str(part) for part in at if isinstance(part, str))
        hint = f"write [[{name}]]"
        problems.append(
            Problem(
                "bad-type", f"`{name}` should be an array of tables", Place(source.file, at), hint
            )
        )
        return []
    found = (
        _patch(source, problems, entry, (*at, index), kind, target)
        for index, entry in enumerate(entries)
    )
    return [patch for patch in found if patch is not None]


def _patch(
    source: FileSource, problems: list[Problem], entry: object, at: KeyPath, kind: str, target: str
) -> Patch | None:
    place = Place(source.file, at)
    if not isinstance(entry, dict):
        problems.append(wrong_type(source, at, "a table", entry))
        return None
    name = entry.get(target, entry.get("agent" if target == "name" else "name"))
    rig = entry.get("rig", entry.get("dir"))
    for key in _TARGET & entry.keys():
        if not isinstance(entry[key], str):
            problems.append(wrong_type(source, (*at, key), "a string", entry[key]))
            return None
    if not name:
        words = f"a patch needs `{target}`, the agent it changes"
        problems.append(Problem("missing-key", words, place))
        return None
    if is_path(rig):
        words = "`dir` has no effect in a patch: it is a path, and no rig"
        problems.append(warning("not-acted-on", words, Place(source.file, (*at, "dir"))))
        rig = None
    decoded = decode_agent(
        source.disk, entry, source.path, at, source.pack, apart=_TARGET, patch=True
    )
    problems += decoded.problems
    own = kind != PACK_PATCH or source.pack == source.disk.root
    layer = Layer(kind, source.file, decoded.values, at, decoded.written or None, own)
    spelled = target if target in entry else ("agent" if target == "name" else "name")
    return Patch(
        name,
        None if rig in ("", "*") else rig,
        layer,
        Place(source.file, (*at, spelled), of_value=True),
    )
