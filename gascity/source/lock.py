"""packs.lock as it stands on disk, in our form and in the public one."""

from collections.abc import Iterator, Mapping

from gascity.model.lock import SCHEMA, Locked
from gascity.model.names import did_you_mean
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.repositories import SourceFault, check_path, parse_remote, shown
from gascity.model.versions import is_commit
from gascity.source.agents import read_table
from gascity.source.decode import describe
from gascity.source.disk import Disk

LOCK = "packs.lock"

_TOP = ("schema", "pack", "packs")
_OURS = Locked._fields
_PUBLIC = ("version", "commit", "fetched")
_AGAIN = "`city pack install` writes it anew once it is deleted"


def read_lock(disk: Disk) -> tuple[Locked, ...]:
    """What the city's imports are pinned to, sorted; faulty entries are noted and left out."""
    raw = read_table(disk, f"{disk.root}/{LOCK}")
    if not raw:  # there is none, or nobody has written anything to it yet
        return ()
    lock = _Lock(disk)
    if not lock.is_readable(raw):
        return ()
    found: dict[tuple[str, ...], Locked] = {}
    for at, locked in (*lock.ours(raw), *lock.public(raw)):
        if found.setdefault(locked[:4], locked) is not locked:
            words = f"`{locked.binding or locked.source}` is pinned twice"
            disk.problems.append(
                Problem("duplicate-name", words, Place(LOCK, at), "keep one of the two entries")
            )
    return tuple(sorted(found.values()))


class _Lock:
    """Reads one file, and notes what is wrong with it."""

    def __init__(self, disk: Disk) -> None:
        self.problems = disk.problems

    def is_readable(self, raw: Mapping[str, object]) -> bool:
        """Is it in a form that this program knows?"""
        self._known(raw, (), _TOP)
        schema = raw.get("schema")
        if schema is None:
            self._note("missing-key", "`schema` is missing", ())
        elif type(schema) is not int:
            self._wrong(("schema",), "an integer", schema)
        elif schema > SCHEMA:
            words = f"schema {schema} is newer than this program reads"
            self._note("lock-too-new", words, ("schema",), "upgrade this program")
        elif schema < SCHEMA:
            self._note("bad-value", f"`schema` should be {SCHEMA}", ("schema",))
        return schema is None or schema == SCHEMA

    def ours(self, raw: Mapping[str, object]) -> Iterator[tuple[KeyPath, Locked]]:
        entries = raw.get("pack", [])
        if not isinstance(entries, list):
            self._wrong(("pack",), "an array of tables", entries)
            return
        for index, entry in enumerate(entries):
            at = ("pack", index)
            if not isinstance(entry, dict):
                self._wrong(at, "a table", entry)
                continue
            self._known(entry, at, _OURS)
            locked = self._entry(entry, at)
            if locked is not None:
                yield at, locked

    def public(self, raw: Mapping[str, object]) -> Iterator[tuple[KeyPath, Locked]]:
        """`[packs."<source>"]`, where the directory is a part of the source."""
        tables = raw.get("packs", {})
        if not isinstance(tables, dict):
            self._wrong(("packs",), "a table", tables)
            return
        for source, entry in tables.items():
            at = ("packs", source)
            if not isinstance(entry, dict):
                self._wrong(at, "a table", entry)
                continue
            self._known(entry, at, _PUBLIC)
            values = {key: entry[key] for key in ("version", "commit") if key in entry}
            locked = self._entry({"binding": "", "source": source, **values}, at)
            if locked is not None:
                yield at, locked._replace(path=parse_remote(source).path)

    def _entry(self, entry: Mapping[str, object], at: KeyPath) -> Locked | None:
        before = len(self.problems)
        binding, source, commit = (
            self._text(entry, at, key, needed=True) for key in ("binding", "source", "commit")
        )
        path, version, sha256 = (
            self._text(entry, at, key) for key in ("path", "version", "sha256")
        )
        locked = Locked(binding, source, path, version, commit, sha256, self._parents(entry, at))
        if len(self.problems) == before:
            self._check(locked, at)
        return locked if len(self.problems) == before else None

    def _check(self, locked: Locked, at: KeyPath) -> None:
        if not is_commit(locked.commit):
            words = "`commit` is not the full name of a commit"
            self._note("bad-value", words, (*at, "commit"), _AGAIN)
        if locked.sha256 and not (len(locked.sha256) == 64 and is_commit(locked.sha256)):
            words = "`sha256` is not a hash of 64 hexadecimal digits"
            self._note("bad-value", words, (*at, "sha256"), _AGAIN)
        key = "source"
        try:
            parse_remote(locked.source)
            key = "path"
            check_path(locked.path)
        except SourceFault as fault:
            written = (*at, key) if at[0] == "pack" else at
            self._note(fault.code, fault.message, written, fault.hint)

    def _text(
        self, entry: Mapping[str, object], at: KeyPath, key: str, needed: bool = False
    ) -> str:
        value = entry.get(key)
        if isinstance(value, str):
            return value.lower() if key in ("commit", "sha256") else value
        if value is not None:
            self._wrong((*at, key), "a string", value)
        elif needed:
            self._note("missing-key", f"`{key}` is missing", at, _AGAIN)
        return ""

    def _parents(self, entry: Mapping[str, object], at: KeyPath) -> tuple[str, ...]:
        value = entry.get("parents", [])
        if not isinstance(value, list):
            self._wrong((*at, "parents"), "a list of strings", value)
            return ()
        odd = [parent for parent in value if not isinstance(parent, str)]
        if odd:
            words = f"`parents` should be a list of strings, but holds {describe(odd[0])}"
            self._note("bad-type", words, (*at, "parents"))
            return ()
        return tuple(sorted(value))

    def _known(self, table: Mapping[str, object], at: KeyPath, known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                words = f"`{shown(key)}` is not part of {LOCK}"
                self._note("unknown-key", words, (*at, key), did_you_mean(key, known))

    def _wrong(self, at: KeyPath, wanted: str, value: object) -> None:
        name = at[-1] if len(at) > 2 else at[0]  # a source may be unfit to be shown
        self._note("bad-type", f"`{name}` should be {wanted}, not {describe(value)}", at)

    def _note(self, code: str, message: str, at: KeyPath, hint: str | None = None) -> None:
        self.problems.append(
            Problem(code, message, Place(LOCK, at, of_value=code != "unknown-key"), hint)
        )
