"""Keeps managed files out of `git status`, and MCP markers up to date, after a directory changed.

Three means, because git has no single one for all cases:

- In a user's checkout: a block in the repository's own `info/exclude`.
- In a worktree: all worktrees share `info/exclude`, so a block there would hide files of the same
  name in the user's checkout. Instead the session gets its own `core.excludesFile` through
  environment variables; it starts with the user's global excludes.
- A tracked file that a managed one covers: `git update-index --skip-worktree`.

MCP markers (`.gc/mcp-managed/`) tell users and other programs which provider files contain servers
that city manages.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO

from gascity import files
from gascity import paths as city_paths
from gascity.model.plan import PathRecord
from gascity.model.wanted import DOCUMENT, digest
from gascity.source.disk import is_below
from gascity.workdir.planner import Planner
from gascity.workdir.write.ledger import Ledger, SyncState

# The wording of these lines is a file format: existing exclude files contain them.
_BEGIN = b"# city: begin of what is written to "
_END = b"# city: end of what is written to "
_SESSION_HEADER = b"# city: what is written to this worktree\n"
_BOM = b"\xef\xbb\xbf"  # git ignores it only at the start of a file
_SPECIAL = "\\*?[]"


def sync_git_and_markers(planner: Planner, ledger: Ledger) -> SyncState:
    """Update git's excludes, covered files and the MCP markers; return the new sync state."""
    root, environ, before = ledger.root, planner.environ, ledger.synced
    paths = sorted(path for path, record in ledger.paths.items() if _is_excluded(record))
    covers = {path for path, record in ledger.paths.items() if record.covers}
    hashed = digest("\n".join(paths).encode("utf-8", "surrogateescape")) if paths else ""
    in_git = hashed != before.excluded and _is_in_git(planner, ledger)
    if in_git and before.excluded is not None:
        planner.ledgers.write(ledger.unsynced())
    marked = write_markers(planner.city.root, ledger)
    if not os.path.isdir(root):
        return SyncState("", (), marked)
    uncovered = set(before.covered) - covers
    if covers or uncovered:
        from gascity.workdir.write import worktree
    if uncovered:
        worktree.uncover(root, sorted(uncovered), environ)
    if covers:
        worktree.cover(root, sorted(covers), environ)
    if in_git:
        _exclude(planner, ledger, paths)
    excluded = hashed if in_git or hashed == before.excluded else ""
    return SyncState(excluded, tuple(sorted(covers)), marked)


def _is_in_git(planner: Planner, ledger: Ledger) -> bool:
    """Return whether the directory is in a work tree. Below .gc/, only worktrees are."""
    is_state = is_below(ledger.root, f"{planner.city.root}/.gc")
    return bool(ledger.rig or (not is_state and planner.sites.toplevel(ledger.root)))


def _exclude(planner: Planner, ledger: Ledger, paths: Sequence[str]) -> None:
    root, environ = ledger.root, planner.environ
    if ledger.rig:
        file = excludes_file(planner.city.root, root)
        files.make_private_directory(os.path.dirname(file))
        write_session_excludes(file, root, paths, environ)
    else:
        exclude_in_checkout(root, paths, environ)


def _is_excluded(record: PathRecord) -> bool:
    """Return whether git should ignore a path.

    A user's own file with managed keys stays visible, unless it is private and so may contain
    secrets.
    """
    managed = record.kind != DOCUMENT or record.made or not record.mode & 0o077
    return not record.covers and not record.adopted and managed


def excludes_file(city: str, root: str) -> str:
    """Return the excludes file of sessions in a worktree."""
    return f"{city}/.gc/excludes/{city_paths.path_key(root)}"


def exclude_in_checkout(root: str, paths: Iterable[str], environ: Mapping[str, str]) -> bool:
    """Exclude files below `root` by a block in the repository's exclude file; True if it changed.

    The block belongs to this root; without paths it is removed. Blocks of roots that no longer
    exist are removed too. Everything else stays byte for byte, and comes after our blocks, so that
    a user's `!` pattern wins.
    """
    from gascity import git

    home = f"{git.common_dir(root, environ)}/info"
    lines = patterns(paths, prefix_of(root, environ))
    if not lines and not os.path.isdir(home):
        return False
    os.makedirs(home, exist_ok=True)
    with files.locked(home):
        after = with_block(files.read_or_none(f"{home}/exclude") or b"", root, lines)
        return files.update_file(f"{home}/exclude", after)


def prefix_of(root: str, environ: Mapping[str, str]) -> str:
    """Return a directory relative to the top of its work tree: empty, or ending in `/`."""
    from gascity import git

    return git.run(["rev-parse", "--show-prefix"], root, environ).line


def patterns(paths: Iterable[str], prefix: str) -> bytes:
    """Return lines that match exactly these paths, whatever characters they contain."""
    return b"".join(
        os.fsencode(f"/{_escaped(prefix + path)}\n") for path in sorted(frozenset(paths))
    )


def _escaped(path: str) -> str:
    text = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in path)
    text = text.replace("\n", "?")  # a pattern cannot contain a newline, but `?` matches one
    if text.endswith("\r"):
        return text[:-1] + "?"
    stripped = text.rstrip(" ")
    return stripped + "\\ " * (len(text) - len(stripped))


def with_block(data: bytes, root: str, lines: bytes) -> bytes:
    """Return an exclude file with the block of one root replaced, or removed without lines."""
    bom = _BOM if data.startswith(_BOM) else b""
    blocks, rest = _split(data.removeprefix(bom))
    name = _block_name(root)
    blocks = {
        other: block for other, block in blocks.items() if other != name and _root_exists(other)
    }
    if lines:
        blocks[name] = lines
    managed = b"".join(
        b"%s%s\n%s%s%s\n" % (_BEGIN, name, block, _END, name)
        for name, block in sorted(blocks.items())
    )
    return bom + managed + rest


def _block_name(root: str) -> bytes:
    """Encode a root so that it fits into one line."""
    raw = os.fsencode(root)
    return raw.replace(b"%", b"%25").replace(b"\n", b"%0A").replace(b"\r", b"%0D")


def _root_exists(name: bytes) -> bool:
    raw = name.replace(b"%0D", b"\r").replace(b"%0A", b"\n").replace(b"%25", b"%")
    return os.path.isdir(raw)


def _split(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Return our blocks by root, and the rest. A block without its end line counts as the rest."""
    blocks: dict[bytes, bytes] = {}
    rest: list[bytes] = []
    lines = iter(BytesIO(data).readlines())
    for line in lines:
        text = line.rstrip(b"\r\n")
        if not text.startswith(_BEGIN):
            rest.append(line)
            continue
        root = text.removeprefix(_BEGIN)
        block: list[bytes] = []
        for inner in lines:
            if inner.rstrip(b"\r\n") == _END + root:
                blocks[root] = b"".join(block)
                break
            block.append(inner)
        else:
            rest += [line, *block]
    return blocks, b"".join(rest)


def write_session_excludes(
    file: str, root: str, paths: Iterable[str], environ: Mapping[str, str]
) -> bool:
    """Write the excludes file of sessions in `root`; return True if it changed.

    It contains the user's global excludes and then the managed paths. A `!` pattern in the
    project's own ignore files wins over both.
    """
    user = b""
    with suppress(OSError):  # git cannot read it either
        content = files.read_or_none(_global_excludes(root, environ)) or b""
        user = content.partition(_SESSION_HEADER)[0]
    if user and not user.endswith(b"\n"):
        user += b"\n"
    data = user + _SESSION_HEADER + patterns(paths, prefix_of(root, environ))
    return files.update_file(file, data)


def _global_excludes(root: str, environ: Mapping[str, str]) -> str:
    """Return the path of the user's global excludes file."""
    from gascity import git

    arguments = ["config", "--type=path", "--get", "core.excludesFile"]
    configured = git.run(arguments, root, environ, allowed=(0, 1)).line
    return os.path.join(root, configured or f"{city_paths.config_home(environ)}/git/ignore")


def session_git_environment(file: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that set a session's excludes file, after settings passed the same way.

    Without a file, the user's own excludes stay in effect.
    """
    from gascity import git

    existing = environ.get("GIT_CONFIG_COUNT", "")
    first = int(existing) if existing.isdecimal() else 0
    settings = [("core.excludesFile", file), git.SPARSE] if file else [git.SPARSE]
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, value) in enumerate(settings, first):
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def write_markers(city: str, ledger: Ledger) -> tuple[str, ...]:
    """Write one MCP marker per file that contains managed servers; return the markers' names."""
    home = f"{city}/.gc/mcp-managed"
    markers = {
        ledger.marker_name(path): _marker(ledger.root, path, record)
        for path, record in ledger.paths.items()
        if record.entries
    }
    for name in ledger.synced.marked:
        if name not in markers:
            with suppress(FileNotFoundError):
                os.unlink(f"{home}/{name}")
        if ledger.synced.excluded is None:  # the last process may have been killed while writing
            files.remove_temporary(f"{home}/{name}")
    if markers:
        files.make_private_directory(home)
    for name, data in markers.items():
        if files.read_or_none(f"{home}/{name}") != data:
            # Not durable: the next apply writes again what a power cut took.
            files.write_file(f"{home}/{name}", data, durable=False)
    return tuple(sorted(markers))


def _marker(root: str, path: str, record: PathRecord) -> bytes:
    import json

    fields = {
        "managed_by": "gascity",
        "provider": record.shape.provider if record.shape else "unknown",
        "root": root,
        "target": path,
        "servers": sorted(record.entries or ()),
        "agents": list(record.agents),
    }
    return (json.dumps(fields, indent=2) + "\n").encode()
