"""Reports packs that the user has not accepted, and locks that do not record it.

What a pack can execute is listed by executables.py, and packs.lock records what the user accepted
(`PackFinder.is_accepted`). A pack that is not accepted is loaded, so that it can be shown, but its
agents do not run, and its providers, overlays, skills and MCP servers are not used.
"""

from collections.abc import Iterable, Iterator

from gascity.model.pack import Import, Sources, downwards
from gascity.model.problems import Place, Problem, warning


def acceptance_problems(sources: Sources) -> Iterator[Problem]:
    """Yield one problem per import with a pack that is not accepted, and one about older locks."""
    rigs = [(rig.name, rig.imports) for rig in sources.rigs]
    reported: set[Place] = set()
    for rig, imports in (("", sources.pack.imports), *rigs):
        for imported in imports:
            waiting = [pack for pack in downwards(imported.pack) if not pack.accepted]
            if waiting and imported.place not in reported:
                reported.add(imported.place)
                name = f"{rig}/{imported.binding}" if rig else imported.binding
                inside = ", ".join(f"`{pack.name}`" for pack in waiting)
                yield _not_accepted(imported, name, inside)
    older = sorted(_unrecorded(sources.imports))
    if older:
        yield _older_lock(older)


def _not_accepted(imported: Import, name: str, inside: str) -> Problem:
    return warning(
        "pack-not-accepted",
        f"you have not accepted what {inside} can execute: its agents do not run, and its overlay, "
        "skills, MCP servers and providers are left out",
        imported.place,
        f"review it: `city pack show {name}`; then run `city pack accept {name}`",
    )


def _unrecorded(imports: Iterable[Import]) -> set[str]:
    """Return the bindings whose lock entry was written before packs had to be accepted."""
    todo, seen = list(imports), set[str]()
    bindings: set[str] = set()
    while todo:
        imported = todo.pop()
        if imported.pack is not None and imported.locked and imported.locked.is_unrecorded:
            bindings.add(imported.binding)
        if imported.pack is not None and imported.pack.root not in seen:
            seen.add(imported.pack.root)
            todo += imported.pack.imports
    return bindings


def _older_lock(bindings: list[str]) -> Problem:
    names = ", ".join(f"`{binding}`" for binding in bindings[:3])
    names += f" and {len(bindings) - 3} more" if len(bindings) > 3 else ""
    return warning(
        "pack-not-reviewed",
        f"packs.lock does not record that you accepted {names}; what an older version locked "
        "counts as accepted",
        Place("packs.lock"),
        f"review them: `city pack show {bindings[0]}`; then run `city pack accept`",
    )
