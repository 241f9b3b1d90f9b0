"""What git says of the tracked files that ours may cover."""

from collections.abc import Mapping, Sequence


def original(root: str, path: str, environ: Mapping[str, str]) -> tuple[bytes, int] | None:
    """A tracked file as git's index has it, and the mode it has there; None if git has none."""
    from gascity import git

    listed = ["--literal-pathspecs", "ls-files", "--stage", "-z", "--", path]
    mode = git.run(listed, root, environ).out[:6]
    if not mode.startswith(b"100"):
        return None
    data = git.run(["cat-file", "--filters", f":./{path}"], root, environ).out
    return data, 0o755 if mode == b"100755" else 0o644


def changed(root: str, paths: Sequence[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Those of some tracked files that are no longer as git has them."""
    from gascity import git

    # A refreshed index knows that a file with a new time and the old content has not changed.
    git.run(["update-index", "-q", "--refresh"], root, environ, allowed=(0, 1))
    asked = ["diff-files", "--name-only", "--relative", "-z"]
    return frozenset(git.run(asked, root, environ).names).intersection(paths)
