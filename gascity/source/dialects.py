"""Layouts that today's tables do not explain, brought into today's by whoever registered for it."""

from collections.abc import Mapping

from gascity.model.pack import Patch
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.tables import PACK
from gascity.model.tree import Tree
from gascity.source.disk import Disk
from gascity.source.manifest import Manifest

# Directories of other layouts: today's has no use for them, so a pack with one may be of another.
_ELSEWHERE = ("overlays", "prompts")
GROUP = "gascity.dialects"


def explained(disk: Disk, tree: Tree, known: Mapping[str, object]) -> bool:
    """Is everything at the top of a pack and of its manifest part of today's layout?"""
    if "agent" in tree.manifest or any(key not in known for key in tree.manifest):
        return False
    pack = tree.manifest.get("pack")
    if isinstance(pack, dict):
        schema = pack.get("schema", 2)
        if any(key not in PACK.keys for key in pack) or (isinstance(schema, int) and schema < 2):
            return False
    return not any(disk.is_directory(f"{tree.root}/{name}") for name in _ELSEWHERE)


def translated(tree: Tree) -> Tree:
    """The tree as the registered dialects read it, one after the other.

    A dialect that fails is one problem of the pack, whatever it raised: it is not our code.
    """
    from gascity.plugins import entry_points, load

    for name, target in entry_points(GROUP):
        try:
            tree = load(target)(tree)
        except Exception as error:
            words = f"the reader `{name}` of another layout failed: {error or type(error).__name__}"
            fault = Problem("dialect-failed", words, Place(tree.file))
            tree = tree._replace(problems=(*tree.problems, fault))
    return tree


def relocate(manifest: Manifest, moved: Mapping[KeyPath, KeyPath]) -> None:
    """Let everything that was read point to where the file has it."""

    def path(of: KeyPath) -> KeyPath:
        for length in range(len(of), 0, -1):
            if of[:length] in moved:
                return (*moved[of[:length]], *of[length:])
        return of

    def place(of: Place) -> Place:
        return of._replace(path=path(of.path))

    def patch(one: Patch) -> Patch:
        return one._replace(place=place(one.place), layer=one.layer._replace(at=path(one.layer.at)))

    manifest.problems = [
        one._replace(place=place(one.place)) if one.place else one for one in manifest.problems
    ]
    manifest.imports = [one._replace(place=place(one.place)) for one in manifest.imports]
    manifest.patches = [patch(one) for one in manifest.patches]
    manifest.named_sessions = [
        one._replace(place=place(one.place)) for one in manifest.named_sessions
    ]
    manifest.rigs = [
        rig._replace(
            patches=tuple(patch(one) for one in rig.patches),
            imports=tuple(one._replace(place=place(one.place)) for one in rig.imports),
        )
        for rig in manifest.rigs
    ]
