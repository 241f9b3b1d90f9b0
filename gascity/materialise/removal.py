"""Where a session worked, taken away with the session, unless something would be lost."""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from gascity.apply import markers
from gascity.apply.clearing import clear_away
from gascity.apply.ledger import Ledger
from gascity.apply.perform import Workshop
from gascity.apply.recover import recover
from gascity.apply.tree_state import foreign, listed
from gascity.git import GitFault
from gascity.materialise.carry_out import after_worktree, remove_worktree
from gascity.materialise.directories import ours_in
from gascity.materialise.launches import launch_file
from gascity.source.disk import is_below


def remove_directory(
    city: str,
    workdir: str,
    environ: Mapping[str, str],
    *,
    taken: Callable[[], Collection[str]] = tuple,
    force: bool = False,
) -> list[str]:
    """Remove a session's worktree or slot directory; what stands against it, and then it stays.

    The directory that `apply` makes for an agent of the city stays, and so does every place that
    a person chose or that one of `taken`, other sessions, works in: nothing stands against that.
    Who is asked for while nobody can be given the directory.
    """
    root = os.path.realpath(workdir)
    shop = Workshop.of(city)
    if not workdir or not os.path.exists(shop.ledgers.file(root)):
        return []
    with shop.ledgers.locked(root):
        if not {root, workdir}.isdisjoint(taken()):
            return []
        recover(shop, root)
        ledger = shop.ledgers.read(root)
        if ledger.rig:
            try:
                against = remove_worktree(city, ledger, environ, force=force)
            except GitFault as fault:
                against = [fault.message]
        elif ledger.slot and is_below(root, f"{os.path.realpath(city)}/.gc/work"):
            against = _remove_own(ledger, force)
        else:
            return []
        if not against:
            _close_books(city, shop, ledger)
    return against


def _remove_own(ledger: Ledger, force: bool) -> list[str]:
    root = ledger.root
    if not os.path.isdir(root):
        return []
    ours, _ = ours_in(ledger)
    left = tuple(foreign(root, "", ours, {}))
    if left and not force:
        return [f"not from us, and nowhere else: {listed(left)}"]
    clear_away(root)
    return []


def _close_books(city: str, shop: Workshop, ledger: Ledger) -> None:
    markers.write(city, ledger._replace(paths={}))
    if ledger.rig:
        after_worktree(city, ledger.root)
    for agent in ledger.agents if ledger.slot else ():
        file = launch_file(city, agent, ledger.slot)
        with suppress(OSError):
            os.unlink(file)
            os.rmdir(os.path.dirname(file))
    shop.ledgers.write(Ledger(ledger.root))
