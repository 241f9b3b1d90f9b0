"""Directories with another name today: shared prompts, overlays, and files with the old suffix."""

import os
from collections.abc import Iterator

from gascity_migrate.draft import Draft, Home
from gascity_migrate.first import OVERLAYS, SHARED_PROMPTS

_FRAGMENTS = "template-fragments"
_OLD, _NEW = ".md.tmpl", ".template.md"


def move_shelves(draft: Draft, home: Home) -> None:
    """What a pack keeps for all its agents. To be called when the agents' own files are known."""
    for directory in sorted({SHARED_PROMPTS, *_beside_prompts(draft, home)}):
        if home.is_first:  # else it is a directory like any other
            _move_fragments(draft, home, directory)
    for directory in (_FRAGMENTS, *_in_agents(draft, home, _FRAGMENTS)):
        _rename_files(draft, home, directory)
    for directory in _in_agents(draft, home, ""):
        _rename_prompt(draft, home, directory)
    _move_overlays(draft, home)


def _beside_prompts(draft: Draft, home: Home) -> Iterator[str]:
    """`shared/` beside a prompt that moves: its fragments were that prompt's too."""
    base = draft.absolute(home.root)
    for source, target in draft.files.wanted():
        name = os.path.basename(target)
        if name.startswith("prompt.") and draft.belongs(source, home):
            path = f"{os.path.dirname(source)}/shared"
            if os.path.isdir(path):
                yield path[len(base) + 1 :]


def _names(draft: Draft, path: str) -> list[str]:
    there = draft.absolute(path)
    return sorted(os.listdir(there)) if os.path.isdir(there) else []


def _move_fragments(draft: Draft, home: Home, directory: str) -> None:
    path = draft.absolute(home.under(directory))
    reason = f"fragments are in {_FRAGMENTS}/"
    if os.path.islink(path):
        draft.files.take(path, home.under(_FRAGMENTS), reason)
        return
    for place, folders, names in os.walk(path):
        links = [one for one in folders if os.path.islink(f"{place}/{one}")]
        for name in sorted([*names, *links]):
            below = f"{place}/{name}"[len(path) + 1 :]
            target = home.under(f"{_FRAGMENTS}/{_renamed(below)}")
            draft.files.take(f"{place}/{name}", target, reason)


def _renamed(name: str) -> str:
    return name.removesuffix(_OLD) + _NEW if name.endswith(_OLD) else name


def _in_agents(draft: Draft, home: Home, below: str) -> Iterator[str]:
    for name in _names(draft, home.under("agents")):
        path = f"agents/{name}/{below}".rstrip("/")
        plain = name[0] not in "._" and not os.path.islink(draft.absolute(f"agents/{name}"))
        if plain and os.path.isdir(draft.absolute(home.under(path))):
            yield path


def _rename_files(draft: Draft, home: Home, directory: str) -> None:
    if os.path.islink(draft.absolute(home.under(directory))):
        return
    for name in _names(draft, home.under(directory)):
        if name.endswith(_OLD):
            path = home.under(f"{directory}/{name}")
            target = home.under(f"{directory}/{_renamed(name)}")
            draft.files.take(draft.absolute(path), target, f"templates end in {_NEW}")


def _rename_prompt(draft: Draft, home: Home, directory: str) -> None:
    path = draft.absolute(home.under(f"{directory}/prompt{_OLD}"))
    if os.path.lexists(path) and not draft.files.is_in_use(path):
        target = home.under(f"{directory}/prompt{_NEW}")
        draft.files.take(path, target, f"templates end in {_NEW}")


def _move_overlays(draft: Draft, home: Home) -> None:
    """`overlays/` is `overlay/` where it is one; a directory of overlays stays, for its users."""
    path = draft.absolute(home.under(OVERLAYS))
    if not os.path.isdir(path) or draft.files.is_in_use(path):
        return
    inside = [source for source, _ in draft.files.wanted() if source.startswith(path + "/")]
    names = _names(draft, home.under(OVERLAYS))
    if not inside and any(_of_overlay(f"{path}/{name}") for name in names):
        draft.files.take(path, home.under("overlay"), "the overlay for all agents is overlay/")
        return
    for name in names:
        if not any(one == f"{path}/{name}" or one.startswith(f"{path}/{name}/") for one in inside):
            shown = home.under(f"{OVERLAYS}/{name}")
            draft.notes.append(f"{shown} is no agent's overlay; it stays where it is")


def _of_overlay(path: str) -> bool:
    """Would this be found in an overlay, rather than in a directory of them?"""
    name = os.path.basename(path)
    return name.startswith(".") or name == "per-provider" or not os.path.isdir(path)
