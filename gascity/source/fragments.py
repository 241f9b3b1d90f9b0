"""Reads template fragments, and the branches of a rig from its git files."""

from collections.abc import Iterator

from gascity.source.disk import Disk, bad_utf8

_SUFFIXES = (".md.tmpl", ".template.md")  # the newer spelling last, so that it wins


def read_fragments(disk: Disk, directory: str) -> Iterator[tuple[str, str]]:
    """Yield the fragment files of a directory, as displayed, with their texts."""
    names = disk.names(disk.absolute(directory))
    for suffix in _SUFFIXES:
        for name in names:
            if name.endswith(suffix) and name[0] not in "._":
                text = read_text(disk, f"{directory}/{name}")
                if text is not None:
                    yield f"{directory}/{name}", text


def read_text(disk: Disk, file: str) -> str | None:
    """Read a text file of the city; None with a problem recorded on the disk."""
    data = disk.read(disk.absolute(file))
    if data is None:
        return None
    problem = bad_utf8(data, file)
    if problem is not None:
        disk.problems.append(problem)
        return None
    return data.decode()


def default_branch(disk: Disk, rig: str) -> str:
    """Return the branch that new work starts from: origin's default branch, else HEAD's."""
    for file, prefix in (
        (".git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/"),
        (".git/HEAD", "ref: refs/heads/"),
    ):
        text = _git_text(disk, f"{rig}/{file}")
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    return ""


def has_commit(disk: Disk, rig: str) -> bool:
    """Is there a commit for a worktree? Reads git's files, because this is asked often."""
    head = _git_text(disk, f"{rig}/.git/HEAD")
    if not head.startswith("ref: "):
        return bool(head) or not disk.is_directory(disk.absolute(f"{rig}/.git"))
    ref = head.removeprefix("ref: ")
    if disk.exists(disk.absolute(f"{rig}/.git/{ref}")):
        return True
    packed = _git_text(disk, f"{rig}/.git/packed-refs")
    return any(line.endswith(f" {ref}") for line in packed.splitlines())


def _git_text(disk: Disk, file: str) -> str:
    path = disk.absolute(file)
    data = disk.read(path) if disk.exists(path) else None
    return (data or b"").decode("utf-8", "replace").strip()
