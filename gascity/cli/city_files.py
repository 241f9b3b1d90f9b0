"""Files that city maintains below .gc: the built-in agents and the editor schemas."""

import os
import stat
from collections.abc import Iterator

from gascity.files import refuse_links, remove_temporary, update_file, write_file
from gascity.model.city import City
from gascity.resources import data_dir, package_dir
from gascity.source.disk import read_plain

_RECORD = ".gc/system/written"


def refresh(root: str, city: City) -> None:
    """Write missing and outdated files; files that the user changed stay unchanged.

    The caller holds the city lock. Temporary files of a killed process are removed.
    """
    import hashlib

    record = os.path.join(root, _RECORD)
    refuse_links(root, record)
    lines = (read_plain(record) or b"").decode("utf-8", "replace").splitlines()
    written = dict(line.split("  ", 1)[::-1] for line in lines if "  " in line)
    for file, (data, mode) in _files(city).items():
        path = os.path.join(root, file)
        refuse_links(root, path)
        if os.path.lexists(path):
            remove_temporary(path)
            current = hashlib.sha256(read_plain(path) or b"").hexdigest()
            if current == hashlib.sha256(data).hexdigest() or written.get(file) != current:
                continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_file(path, data, mode)
        written[file] = hashlib.sha256(data).hexdigest()
    text = "".join(f"{digest}  {file}\n" for file, digest in sorted(written.items()))
    update_file(record, text.encode())


def _files(city: City) -> dict[str, tuple[bytes, int]]:
    files: dict[str, tuple[bytes, int]] = {".gc/.gitignore": (b"*\n", 0o644)}
    builtin = data_dir("system_agents")
    for agent in city.agents:
        if agent.layer == "built-in":
            provider = city.provider_of(agent)
            family = provider.family if provider else None
            names = (agent.name.bare, family or "_default", "_default")
            directories = (os.path.join(builtin, name) for name in names)
            source = next(path for path in directories if os.path.isdir(path))
            files |= dict(tree(source, f".gc/system/agents/{agent.name.bare}/"))
    files |= dict(tree(package_dir("schemas"), ".gc/schemas/"))
    return files


def tree(directory: str, prefix: str) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Yield the files of a directory tree with their contents and modes, under `prefix`."""
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if name in (".gc", "__pycache__"):
            continue
        if os.path.isdir(path):
            yield from tree(path, f"{prefix}{name}/")
        else:
            with open(path, "rb") as file:
                yield prefix + name, (file.read(), stat.S_IMODE(os.stat(path).st_mode))
