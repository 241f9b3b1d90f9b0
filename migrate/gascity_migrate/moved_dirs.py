"""Renames directories and suffixes: shared prompts, overlays, old template names."""

import os
from collections.abc import Iterator

from gascity_migrate.draft import Draft, PackFiles
from gascity_migrate.v1_tables import OVERLAYS, SHARED_PROMPTS

_FRAGMENTS = "template-fragments"
_OLD, _NEW = ".md.tmpl", ".template.md"


def move_shared_dirs(draft: Draft, home: PackFiles) -> None:
    """Move a pack's shared directories. Call it after the agents' own files are requested."""
    for directory in sorted({SHARED_PROMPTS, *_beside_prompts(draft, home)}):
        if home.is_v1:  # otherwise the directory has no special meaning
            _move_fragments(draft, home, directory)
    for directory in (_FRAGMENTS, *_in_agents(draft, home, _FRAGMENTS)):
        _rename_files(draft, home, directory)
    for directory in _in_agents(draft, home, ""):
        _rename_prompt(draft, home, directory)
    _move_overlays(draft, home)


def _beside_prompts(draft: Draft, home: PackFiles) -> Iterator[str]:
    """Yield `shared/` next to each prompt that moves: v1 reads fragments from it."""
    base = draft.absolute(home.root)
    for source, target in draft.files.requests():
        name = os.path.basename(target)
        if name.startswith("prompt.") and draft.belongs(source, home):
            path = f"{os.path.dirname(source)}/shared"
            if os.path.isdir(path):
                yield path[len(base) + 1 :]


def _names(draft: Draft, path: str) -> list[str]:
    directory = draft.absolute(path)
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def _move_fragments(draft: Draft, home: PackFiles, directory: str) -> None:
    path = draft.absolute(home.under(directory))
    reason = f"fragments are in {_FRAGMENTS}/"
    if os.path.islink(path):
        draft.files.take(path, home.under(_FRAGMENTS), reason)
        return
    for directory_path, folders, names in os.walk(path):
        links = [folder for folder in folders if os.path.islink(f"{directory_path}/{folder}")]
        for name in sorted([*names, *links]):
            below = f"{directory_path}/{name}"[len(path) + 1 :]
            target = home.under(f"{_FRAGMENTS}/{_renamed(below)}")
            draft.files.take(f"{directory_path}/{name}", target, reason)


def _renamed(name: str) -> str:
    return name.removesuffix(_OLD) + _NEW if name.endswith(_OLD) else name


def _in_agents(draft: Draft, home: PackFiles, below: str) -> Iterator[str]:
    for name in _names(draft, home.under("agents")):
        path = f"agents/{name}/{below}".rstrip("/")
        plain = name[0] not in "._" and not os.path.islink(draft.absolute(f"agents/{name}"))
        if plain and os.path.isdir(draft.absolute(home.under(path))):
            yield path


def _rename_files(draft: Draft, home: PackFiles, directory: str) -> None:
    if os.path.islink(draft.absolute(home.under(directory))):
        return
    for name in _names(draft, home.under(directory)):
        if name.endswith(_OLD):
            path = home.under(f"{directory}/{name}")
            target = home.under(f"{directory}/{_renamed(name)}")
            draft.files.take(draft.absolute(path), target, f"templates end in {_NEW}")


def _rename_prompt(draft: Draft, home: PackFiles, directory: str) -> None:
    path = draft.absolute(home.under(f"{directory}/prompt{_OLD}"))
    if os.path.lexists(path) and not draft.files.is_in_use(path):
        target = home.under(f"{directory}/prompt{_NEW}")
        draft.files.take(path, target, f"templates end in {_NEW}")


def _move_overlays(draft: Draft, home: PackFiles) -> None:
    """Rename `overlays/` to `overlay/` if it is one overlay, not a directory of several."""
    path = draft.absolute(home.under(OVERLAYS))
    if not os.path.isdir(path) or draft.files.is_in_use(path):
        return
    inside = [source for source, _ in draft.files.requests() if source.startswith(path + "/")]
    names = _names(draft, home.under(OVERLAYS))
    if not inside and any(_of_overlay(f"{path}/{name}") for name in names):
        draft.files.take(path, home.under("overlay"), "the overlay for all agents is overlay/")
        return
    for name in names:
        if not any(
            source == f"{path}/{name}" or source.startswith(f"{path}/{name}/") for source in inside
        ):
            shown = home.under(f"{OVERLAYS}/{name}")
            draft.notes.append(f"{shown} is not used as an overlay by any agent and is not moved")


def _of_overlay(path: str) -> bool:
    """Return whether this is a typical entry of an overlay, not an overlay itself."""
    name = os.path.basename(path)
    return name.startswith(".") or name == "per-provider" or not os.path.isdir(path)
