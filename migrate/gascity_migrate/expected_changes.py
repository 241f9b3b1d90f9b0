"""Computes the differences that a migration plan intends, so that all others are errors."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity_migrate.changes import COPY, MOVE, Change, Migration
from gascity_migrate.defaults import shared_fragments
from gascity_migrate.discover import read_manifests
from gascity_migrate.draft import Draft

SESSIONS = "named sessions"
EXPANDED = "prompt is expanded"
FRAGMENTS = "append_fragments"


class ExpectedChanges(NamedTuple):
    """Renamed agents, fragments that precede every agent's own, and removed named sessions."""

    renamed: Mapping[str, str] = {}
    shared: tuple[str, ...] = ()
    sessions: int = 0

    def with_new_names(self, message: str) -> str:
        """Return a message with the new names of agents."""
        return "`".join(self.renamed.get(word, word) for word in message.split("`"))

    def allows(self, key: str, was: object, now: object) -> bool:
        """Return whether the plan intends this difference."""
        if now in (was, _renamed(was, self.renamed)):
            return True
        if key == EXPANDED:  # the file name now marks the prompt as a template
            return now is True
        if key == FRAGMENTS and isinstance(was, tuple):
            return now == tuple(dict.fromkeys((*self.shared, *was)))
        if key == SESSIONS and isinstance(was, list) and isinstance(now, list):
            known = [*was, *(_renamed(session, self.renamed) for session in was)]
            return 0 <= len(was) - len(now) <= self.sessions and all(
                session in known for session in now
            )
        return False


def changes_intended_by(root: str, plan: Migration) -> ExpectedChanges:
    """Return the differences that a plan intends; call it before the files change."""
    draft = Draft(root)
    read_manifests(draft)
    ended = [item for item in plan.not_carried if item.key == "named_session"]
    return ExpectedChanges(plan.renamed, tuple(shared_fragments(draft.city)), len(ended))


def _renamed(value: object, names: Mapping[str, str]) -> object:
    """Return a value with the new names of agents."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, (tuple, list)):
        return type(value)(_renamed(item, names) for item in value)
    if isinstance(value, Mapping):
        return {key: _renamed(item, names) for key, item in value.items()}
    return value


def shared_overlays(changes: Sequence[Change]) -> dict[str, str]:
    """Return the directories that become the overlay of the city or a pack, by its root."""
    overlays = {}
    for change in changes:
        home, overlay, below = f"/{change.path}/".rpartition("/overlay/")
        home = home.strip("/")
        if overlay and change.op in (MOVE, COPY) and "agents" not in home.split("/"):
            overlays[home or "."] = change.source.removesuffix(f"/{below.strip('/')}")
    return overlays
