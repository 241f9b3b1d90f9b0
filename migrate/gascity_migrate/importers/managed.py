"""Finds what the city itself wrote into a source: exported agents, linked skills, merged servers.

Importing these would define everything a second time. A file that the user edited since is the
user's, so it is imported.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from gascity.model.plan import PathRecord
from gascity.model.wanted import FILE, LINK
from gascity.source.disk import read_plain
from gascity.workdir.write.ledger import Ledgers
from gascity_migrate.importers.types import Imported, SourceTree


class Managed(NamedTuple):
    """Paths in a source, relative to it, and server entries in documents, by path and name."""

    paths: frozenset[str] = frozenset()
    servers: frozenset[tuple[str, str]] = frozenset()

    def without_servers(self, found: Imported, tree: SourceTree) -> Imported:
        """Return what a reader found, without the servers that the city wrote."""
        written = {(tree.shown(path), name) for path, name in self.servers}
        servers = (each for each in found.servers if (each.place.file, each.name) not in written)
        return found._replace(servers=tuple(servers)) if written else found


def managed_in(city: str, source: str) -> Managed:
    """Return what the city wrote below a directory, according to its ledgers."""
    home = f"{city}/.gc/ledger"
    if not os.path.isdir(home):
        return Managed()
    paths: set[str] = set()
    servers: set[tuple[str, str]] = set()
    base = os.path.realpath(source).rstrip("/") + "/"
    for path, record in _records(city, home):
        if not path.startswith(base):
            continue
        relative = path.removeprefix(base)
        servers |= {(relative, name) for name in record.entries or ()}
        if _is_unchanged(path, record):
            paths.add(relative)
    return Managed(frozenset(paths), frozenset(servers))


def _records(city: str, home: str) -> Iterator[tuple[str, PathRecord]]:
    uses = (name for name in sorted(os.listdir(home)) if os.path.isdir(f"{home}/{name}"))
    for use in ("", *uses):
        for ledger in Ledgers(city, use).all():
            for path, record in ledger.paths.items():
                yield os.path.join(os.path.realpath(ledger.root), path), record


def _is_unchanged(path: str, record: PathRecord) -> bool:
    if record.kind == LINK:
        return os.path.islink(path) and os.readlink(path) == record.target
    if record.kind != FILE or record.adopted:
        return False
    data = read_plain(path)
    return data is not None and sha256(data).hexdigest() == record.sha256
