"""Keeps our files out of git's sight: for a person's checkout, and for a session in a worktree."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import BytesIO

from gascity import git, places
from gascity.apply import files

_BEGIN = b"# city: begin of what is written to "
_END = b"# city: end of what is written to "
_OURS = b"# city: what is written to this worktree\n"
_MARK = b"\xef\xbb\xbf"  # git overlooks it only as the first bytes of a file
_SPECIAL = "\\*?[]"


def exclude_in_checkout(root: str, paths: Iterable[str], environ: Mapping[str, str]) -> bool:
    """Have git ignore our files below `root`, by a block in the repository's own exclude file.

    The block is of this root alone, and goes when there are no paths; blocks of roots that are
    gone go too. Everything else in the file stays, byte for byte, and comes after our blocks: a
    person's `!` wins. All worktrees of the repository read the file. True if it was changed.
    """
    home = f"{git.common_dir(root, environ)}/info"
    lines = patterns(paths, prefix_of(root, environ))
    if not lines and not os.path.isdir(home):
        return False
    os.makedirs(home, exist_ok=True)
    with files.locked(home):
        after = with_block(_content(f"{home}/exclude"), root, lines)
        return files.replace_alone(f"{home}/exclude", after)


def prefix_of(root: str, environ: Mapping[str, str]) -> str:
    """A directory as seen from the top of its work tree: empty, or with a `/` at the end."""
    return git.run(["rev-parse", "--show-prefix"], root, environ).line


def patterns(paths: Iterable[str], prefix: str) -> bytes:
    """Lines that match exactly these paths, whatever is in their names."""
    return b"".join(
        os.fsencode(f"/{_escaped(prefix + path)}\n") for path in sorted(frozenset(paths))
    )


def _escaped(path: str) -> str:
    text = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in path)
    text = text.replace("\n", "?")  # no line can hold a line end, but `?` matches one
    if text.endswith("\r"):
        return text[:-1] + "?"
    bare = text.rstrip(" ")
    return bare + "\\ " * (len(text) - len(bare))


def with_block(data: bytes, root: str, lines: bytes) -> bytes:
    """An exclude file with the lines of one root in place of those it had."""
    mark = _MARK if data.startswith(_MARK) else b""
    blocks, rest = _taken_apart(data.removeprefix(mark))
    name = _name(root)
    blocks = {root: block for root, block in blocks.items() if root != name and _is_there(root)}
    if lines:
        blocks[name] = lines
    ours = b"".join(
        b"%s%s\n%s%s%s\n" % (_BEGIN, root, block, _END, root)
        for root, block in sorted(blocks.items())
    )
    return mark + ours + rest


def _name(root: str) -> bytes:
    """A root that fits into one line."""
    raw = os.fsencode(root)
    return raw.replace(b"%", b"%25").replace(b"\n", b"%0A").replace(b"\r", b"%0D")


def _is_there(name: bytes) -> bool:
    raw = name.replace(b"%0D", b"\r").replace(b"%0A", b"\n").replace(b"%25", b"%")
    return os.path.isdir(raw)


def _taken_apart(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Our blocks by their root, and all the rest. A block without its end is not ours."""
    blocks: dict[bytes, bytes] = {}
    rest: list[bytes] = []
    lines = iter(BytesIO(data).readlines())
    for line in lines:
        bare = line.rstrip(b"\r\n")
        if not bare.startswith(_BEGIN):
            rest.append(line)
            continue
        root = bare.removeprefix(_BEGIN)
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
    """Write the excludes file of a session that works in `root`: the person's, then our paths.

    A `!` in the project's own ignore files is stronger, as it is for the person's. True if the
    file was changed.
    """
    person = b""
    with suppress(OSError):  # what git cannot read either
        person = _content(_persons_file(root, environ)).partition(_OURS)[0]
    if person and not person.endswith(b"\n"):
        person += b"\n"
    data = person + _OURS + patterns(paths, prefix_of(root, environ))
    return files.replace_alone(file, data)


def _persons_file(root: str, environ: Mapping[str, str]) -> str:
    """Where git finds what a person ignores everywhere."""
    asked = ["config", "--type=path", "--get", "core.excludesFile"]
    named = git.run(asked, root, environ, allowed=(0, 1)).line
    return os.path.join(root, named or f"{places.config_home(environ)}/git/ignore")


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def session_git_environment(file: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that hand a session its excludes file, beside the settings that are there.

    Without a file the person's own is still in force.
    """
    written = environ.get("GIT_CONFIG_COUNT", "")
    count = int(written) if written.isdecimal() else 0
    ours = [("core.excludesFile", file), git.SPARSE] if file else [git.SPARSE]
    found = {"GIT_CONFIG_COUNT": str(count + len(ours))}
    for number, (name, value) in enumerate(ours, count):
        found[f"GIT_CONFIG_KEY_{number}"] = name
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found
