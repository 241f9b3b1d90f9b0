"""Packs that were fetched, called as people know them: where the cache keeps one tells nobody."""

import os
from collections.abc import Mapping

from gascity.source.cached import cache_directory, pack_directory


def by_name(text: str, root: str, environ: Mapping[str, str], tried: Mapping[str, str]) -> str:
    """A text in which files of fetched packs have the name of their import: `crew//pack.toml`.

    `tried` are files of the city that are taken as if they said that.
    """
    cache = cache_directory(environ)
    if f"{cache}/packs/" not in text:
        return text
    from gascity.model.repositories import parse_remote
    from gascity.source.disk import Disk
    from gascity.source.lock import read_lock

    texts = {os.path.join(root, file): said.encode() for file, said in tried.items()}
    for lock in read_lock(Disk(root, texts)):
        if lock.binding:
            remote = parse_remote(lock.source)._replace(path=lock.path)
            tree = pack_directory(cache, remote, lock.commit)
            text = text.replace(f"{tree}/", f"{lock.binding}//").replace(tree, lock.binding)
    return text
