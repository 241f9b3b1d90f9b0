"""Template files as they stand on disk, and what a rig's git says of its branches."""

from collections.abc import Iterator

from gascity.source.disk import Disk, bad_utf8

_SUFFIXES = (".md.tmpl", ".template.md")  # the newer spelling last, so that it wins


def read_fragments(disk: Disk, directory: str) -> Iterator[tuple[str, str]]:
    """The fragment files of a directory, as shown, with their texts."""
    names = disk.names(disk.absolute(directory))
    for suffix in _SUFFIXES:
        for name in names:
            if name.endswith(suffix) and name[0] not in "._":
                text = read_text(disk, f"{directory}/{name}")
                if text is not None:
                    yield f"{directory}/{name}", text


def read_text(disk: Disk, file: str) -> str | None:
    """A text file of the city, or None with the fault noted on the disk."""
    data = disk.read(disk.absolute(file))
    if data is None:
        return None
    fault = bad_utf8(data, file)
    if fault is not None:
        disk.problems.append(fault)
        return None
    return data.decode()


def default_branch(disk: Disk, rig: str) -> str:
    """The branch new work starts from, as the rig's git has it: origin's, else its own."""
    for file, prefix in (
        (".git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/"),
        (".git/HEAD", "ref: refs/heads/"),
    ):
        text = _git_text(disk, f"{rig}/{file}")
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    return ""


def has_commit(disk: Disk, rig: str) -> bool:
    """Is there anything a worktree could be made of? Told by git's files, for it is asked often."""
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
