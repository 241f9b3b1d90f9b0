"""Files of which we own single keys: settings that overlays bring, and MCP servers.

What a person wrote in such a file stays, order and comments included. What cannot be parsed is not
touched.
"""

from collections.abc import Mapping, Sequence

from gascity.model.plan import (
    ABSENT,
    BLOCKED,
    DOCUMENT,
    FILE,
    LINK,
    MERGE,
    Change,
    Found,
    Held,
    Shape,
    Wanted,
    digest,
)
from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple
from gascity.plan.ground import (
    EDITED,
    FOREIGN,
    TRACKED,
    Choices,
    Ground,
    Outcome,
    linked,
    take_away,
)
from gascity.render import documents, settings

_JSON = "json"
_PRIVATE = 0o600


class _Text(NamedTuple):
    """A file of a person as it is edited: the text, and what we own in it from now on."""

    text: str
    entries: Mapping[str, Mapping[str, str]]
    replaced: Mapping[str, object]


def merge_document(
    one: Wanted, held: Held | None, ground: Ground, choices: Choices, out: Outcome
) -> None:
    """Put our keys into a file, or bring them up to date."""
    found = ground.found(one.path)
    text = _opened(one, held, found, ground, out)
    if text is None:
        return
    stood = text
    covers = one.path in ground.coverable or (held is not None and held.covers)
    whole = held is not None and held.kind == FILE and digest(text.encode()) == held.sha256
    if whole:
        text = ""  # a file that was all ours becomes a shared one
    # Of a file that is gone, what we had in it is gone too.
    held = held if held is not None and held.kind == DOCUMENT and found.kind == FILE else None
    disputes: list[str] = []
    bare = _is_theirs(one, held, ground, choices)
    if bare:
        disputes.append(TRACKED)
    try:
        asked = one._replace(settings=None) if bare else one
        new, written = _with_settings(asked, held, text, choices.force, disputes)
        done = _with_entries(one, held, new, choices.force, disputes)
    except documents.DocumentFault as fault:
        _unparsable(one, fault, ground, out)
        return
    made = held.made if held else whole or found.kind != FILE
    original = _original(held, found, stood) if not made else None
    record = Held(
        DOCUMENT,
        one.source,
        one.layer,
        one.agents,
        mode=_mode(one, found, original),
        covers=covers,
        settings=written,
        shape=one.shape or (held.shape if held else None),
        entries=done.entries,
        replaced=done.replaced,
        sha256=held.sha256 if held else digest(stood.encode()),
        made=made,
        original=original,
        adopted=_agreed(one, held, choices, disputes, out),
    )
    if found.kind == FILE and one.entries and not made and not (held and held.entries):
        out.snapshots.append(one.path)
    _finish(one, found, stood, done.text, record, out)


def _is_theirs(one: Wanted, held: Held | None, ground: Ground, choices: Choices) -> bool:
    """Would settings of ours come into a file that git tracks, and that we may not cover?"""
    ours = held is not None and held.settings is not None
    tracked = one.path in ground.tracked and one.path not in ground.coverable
    return one.settings is not None and tracked and not ours and not choices.force


def _original(held: Held | None, found: Found, text: str) -> tuple[int, str] | None:
    """A person's file before anything of ours came into it, as long as only we have changed it."""
    if held is None:
        return found.mode, text
    if digest(text.encode()) != held.sha256 or found.mode != held.mode:
        return None
    return held.original


def _agreed(
    one: Wanted, held: Held | None, choices: Choices, disputes: Sequence[str], out: Outcome
) -> str:
    """What a person agreed to leave as it stands, by the hash of our wish; else it is said."""
    if choices.adopt:
        if disputes:
            out.accepted.append(one.path)
        return wish(one) if disputes or one.data is not None else ""
    if held is not None and held.adopted == wish(one):
        return held.adopted
    for reason in disputes:
        out.keep(one.path, one, reason)
    return ""


def wish(one: Wanted) -> str:
    """A hash of everything we want in a document; it may stand in for a whole file of ours."""
    entries = {name: entry.value for name, entry in (one.entries or {}).items()}
    whole = digest(one.data) if one.data is not None else ""
    return documents.digest([one.settings, entries, whole])


def _finish(one: Wanted, found: Found, before: str, after: str, record: Held, out: Outcome) -> None:
    mode = found.mode if found.kind == FILE else record.mode
    if after == before and found.kind == FILE and mode == record.mode:
        if record.entries or record.settings or record.adopted:
            out.records[one.path] = record
        else:
            out.records.pop(one.path, None)  # nothing of ours is in it
        return
    if not (record.entries or record.settings) and found.kind == ABSENT:
        out.records.pop(one.path, None)
        return
    data = after.encode()
    change = Change(one.path, FILE, found, data=data, mode=record.mode, lasting=not record.made)
    names = ", ".join(sorted(record.entries or ()))
    reason = f"servers: {names}" if names else ""
    out.change(MERGE, reason, change, record, record)


def _mode(one: Wanted, found: Found, original: tuple[int, str] | None) -> int:
    """A person's mode stays, unless a secret comes in that others could then read."""
    if found.kind != FILE or one.mode == _PRIVATE:
        return one.mode
    return original[0] if original else found.mode


def _opened(
    one: Wanted, held: Held | None, found: Found, ground: Ground, out: Outcome
) -> str | None:
    """The text to edit; None where there is nothing that may be edited."""
    if found.kind == ABSENT:
        return ""
    if found.kind == FILE:
        try:
            return ground.read(one.path).decode()
        except UnicodeDecodeError:
            _unparsable(one, documents.DocumentFault("is not UTF-8", 1, 1), ground, out)
            return None
    if found.kind == LINK and held is not None and held.target == found.target:
        return ""
    where = one.path if found.kind == LINK else found.target
    out.keep(one.path, one, "a link stands there" if found.kind == LINK else "it cannot be written")
    if found.kind in (LINK, BLOCKED):
        out.problems.append(linked(ground.shown(where)))
    return None


def _unparsable(
    one: Wanted | Held, fault: documents.DocumentFault, ground: Ground, out: Outcome, path: str = ""
) -> None:
    path = path or (one.path if isinstance(one, Wanted) else path)
    out.keep(path, one, "it cannot be parsed")
    out.problems.append(
        Problem(
            "unparsable-target",
            f"{fault.message}; the file is left as it is",
            Place(ground.shown(path), line=fault.line, col=fault.col),
            "mend it, or move it away",
        )
    )


def _with_settings(
    one: Wanted, held: Held | None, text: str, force: bool, disputes: list[str]
) -> tuple[str, Mapping[str, object] | None]:
    """The text with our settings in it, and what of them we wrote."""
    base = held.settings if held else None
    if one.settings is None and base is None:
        return text, None
    current = theirs = documents.read(text, _JSON)
    if force:
        theirs = _without(current, one.settings or {})
        base = base and _without(base, one.settings or {})
    merged = settings.merge(base, theirs, one.settings)
    for path in merged.theirs:
        reason = EDITED if _at(base, path) is not None else FOREIGN
        disputes.append(f"`{'.'.join(path)}`: {reason}")
    return settings.apply_settings(text, current, merged.value), merged.base or None


def _at(base: object, path: tuple[str, ...]) -> object:
    for key in path:
        base = base.get(key) if isinstance(base, Mapping) else None
    return base


def _without(current: Mapping[str, object], ours: Mapping[str, object]) -> dict[str, object]:
    """A document without the leaves that ours would dispute; hooks are united anyway."""
    found: dict[str, object] = {}
    for key, value in current.items():
        wanted = ours.get(key)
        if isinstance(value, Mapping) and isinstance(wanted, Mapping) and key != "hooks":
            found[key] = _without(value, wanted)
        elif key not in ours or key == "hooks":
            found[key] = value
    return found


class _Ownership:
    """Servers of one file while they are sorted out: whose they are, and what to edit."""

    def __init__(self, held: Held | None, there: Mapping[str, object]) -> None:
        self.there = there
        self.owned = dict(held.entries or {}) if held else {}
        self.replaced = dict(held.replaced or {}) if held else {}
        self.puts: dict[str, object] = {}
        self.drops: list[str] = []

    def edited(self, name: str) -> bool:
        """Did a person change a server of ours?"""
        now = self.there.get(name)
        return name in self.owned and now is not None and not _ours(now, self.owned[name])

    def put(self, name: str, value: Mapping[str, object]) -> None:
        """Write a server. One of a person's is remembered; what a provider added to ours stays."""
        now = self.there.get(name)
        if now is not None and name not in self.owned:
            self.replaced[name] = now
        kept = _foreign_keys(now, self.owned[name]) if name in self.owned else {}
        if now is None or documents.digest(now) != documents.digest({**kept, **value}):
            self.puts[name] = {**kept, **value}
        self.owned[name] = {key: documents.digest(item) for key, item in value.items()}

    def release(self, name: str) -> None:
        """Take a server of ours out, and put back whose place it took."""
        before = self.replaced.pop(name, None)
        del self.owned[name]
        if before is not None:
            self.puts[name] = before
        elif name in self.there:
            self.drops.append(name)


def _with_entries(
    one: Wanted, held: Held | None, text: str, force: bool, disputes: list[str]
) -> _Text:
    shape = one.shape or (held.shape if held else None)
    if shape is None:
        return _Text(text, {}, {})
    wanted = one.entries or {}
    mine = _Ownership(held, documents.servers(documents.read(text, shape.format), shape))
    for name in sorted(set(mine.owned) - set(wanted)):
        if mine.edited(name):
            disputes.append(f"server `{name}` has no source any more, but {EDITED}")
            del mine.owned[name]
        else:
            mine.release(name)
    for name in sorted(wanted):
        if not mine.edited(name) or force:
            mine.put(name, wanted[name].value)
        else:
            disputes.append(f"server `{name}`: {EDITED}")
    if mine.puts or mine.drops:
        text = documents.edit_servers(text, shape, mine.puts, mine.drops)
    return _Text(text, mine.owned, mine.replaced)


def _ours(now: object, owned: Mapping[str, str]) -> bool:
    """Is everything we wrote of a server still so? Providers may add to it: approvals, say."""
    return isinstance(now, Mapping) and all(
        key in now and documents.digest(now[key]) == hashed for key, hashed in owned.items()
    )


def _foreign_keys(now: object, owned: Mapping[str, str]) -> dict[str, object]:
    if not isinstance(now, Mapping):
        return {}
    return {str(key): value for key, value in now.items() if key not in owned}


def unmerge_document(path: str, held: Held, ground: Ground, out: Outcome) -> None:
    """Take our keys out of a file again; a file that we made and that is empty then goes."""
    found = ground.found(path)
    if found.kind != FILE:
        out.records.pop(path)
        return
    shape = held.shape or Shape("", _JSON, ())
    nothing = Wanted(path, DOCUMENT, held.source, held.layer, shape=held.shape)
    disputes: list[str] = []
    try:
        text = ground.read(path).decode()
        original = _original(held, found, text)
        new, _ = _with_settings(nothing, held, text, False, disputes)
        new = _with_entries(nothing, held, new, False, disputes).text
        documents.read(new, shape.format)
    except (documents.DocumentFault, UnicodeDecodeError) as fault:
        if not isinstance(fault, documents.DocumentFault):
            fault = documents.DocumentFault("is not UTF-8", 1, 1)
        _unparsable(held, fault, ground, out, path)
        return
    for reason in disputes:
        out.keep(path, held, reason)
    mode, new = original or (found.mode, new)
    if held.made and not new.strip(" \t\r\n{}"):  # not even a comment is left
        take_away(path, held, found, ground, out)
    elif new != text or mode != found.mode:
        change = Change(path, FILE, found, data=new.encode(), mode=mode, lasting=True)
        out.change(MERGE, "nothing asks for it any more", change, None, held)
    else:
        out.records.pop(path)
