"""What a migration means to change: each thing is computed from the plan, none is waved through."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity_migrate.changes import COPY, MOVE, Change, Migration
from gascity_migrate.defaults import shared_fragments
from gascity_migrate.draft import Draft
from gascity_migrate.survey import survey

SESSIONS = "named sessions"
EXPANDED = "prompt is expanded"
FRAGMENTS = "append_fragments"


class Meant(NamedTuple):
    """Names that change, fragments that stood before everybody's own, and sessions that end."""

    renamed: Mapping[str, str] = {}
    shared: tuple[str, ...] = ()
    sessions: int = 0

    def told(self, message: str) -> str:
        """A message with agents under the names they have now."""
        return "`".join(self.renamed.get(word, word) for word in message.split("`"))

    def allows(self, key: str, was: object, now: object) -> bool:
        """Is this just what was to become of it?"""
        if now in (was, _renamed(was, self.renamed)):
            return True
        if key == EXPANDED:  # a text that was meant as a template is one now by its name
            return now is True
        if key == FRAGMENTS and isinstance(was, tuple):
            return now == tuple(dict.fromkeys((*self.shared, *was)))
        if key == SESSIONS and isinstance(was, list) and isinstance(now, list):
            known = [*was, *(_renamed(one, self.renamed) for one in was)]
            return 0 <= len(was) - len(now) <= self.sessions and all(one in known for one in now)
        return False


def meant_by(root: str, plan: Migration) -> Meant:
    """To be asked before anything is done: the city's own files say some of it."""
    draft = Draft(root)
    survey(draft)
    ended = [one for one in plan.not_carried if one.key == "named_session"]
    return Meant(plan.renamed, tuple(shared_fragments(draft.city)), len(ended))


def _renamed(value: object, names: Mapping[str, str]) -> object:
    """A value with agents under the names they have now."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, (tuple, list)):
        return type(value)(_renamed(one, names) for one in value)
    if isinstance(value, Mapping):
        return {key: _renamed(one, names) for key, one in value.items()}
    return value


def shared_overlays(changes: Sequence[Change]) -> dict[str, str]:
    """Directories that become the overlay of the city or a pack, by the root of that."""
    found = {}
    for one in changes:
        home, overlay, below = f"/{one.path}/".rpartition("/overlay/")
        home = home.strip("/")
        if overlay and one.op in (MOVE, COPY) and "agents" not in home.split("/"):
            found[home or "."] = one.source.removesuffix(f"/{below.strip('/')}")
    return found
