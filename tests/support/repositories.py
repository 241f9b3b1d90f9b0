"""Repositories of others, as packs are imported from them: real ones, served from this disk."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.git import commit, git, head
from tests.support.trees import build_tree


class Origin:
    """A repository with an address.

    `origin.commit({"pack.toml": "…"})`, then `origin.url`; what is done to it is public at once.
    """

    def __init__(self, root: Path, files: Mapping[str, str | bytes] | None = None) -> None:
        self.root = root
        root.mkdir(parents=True)
        git(root, "init", "--quiet", "--initial-branch=main")
        if files is not None:
            self.commit(files)

    @property
    def url(self) -> str:
        return f"file://{self.root}"

    @property
    def head(self) -> str:
        return head(self.root)

    def commit(self, files: Mapping[str, str | bytes], message: str = "more") -> str:
        """Write files and commit them on the branch we are on; the commit's name."""
        return commit(self.root, files, message)

    def link(self, path: str, target: str) -> str:
        """Commit a symbolic link."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        git(self.root, "add", "--force", "--", path)
        git(self.root, "commit", "--quiet", "--message", "link")
        return self.head

    def tag(self, name: str, *, annotated: bool = False) -> str:
        """Name the commit we are on; that commit."""
        git(self.root, "tag", *(["--annotate", "--message", name] if annotated else []), name)
        return self.head

    def delete_tag(self, name: str) -> None:
        git(self.root, "tag", "--delete", name)

    def branch(self, name: str) -> None:
        """Go to a branch, which is made if it is new."""
        known = git(self.root, "for-each-ref", f"refs/heads/{name}")
        git(self.root, "checkout", "--quiet", *([] if known else ["-b"]), name)

    def force_push(self, files: Mapping[str, str | bytes], *, forget: bool = True) -> str:
        """Put another commit in place of the one we are on, as `git push --force` does.

        With `forget`, the server no longer has the one before.
        """
        build_tree(self.root, files)
        git(self.root, "add", "--force", "--", *files)
        git(self.root, "commit", "--quiet", "--amend", "--allow-empty", "--message", "instead")
        if forget:
            self.forget()
        return self.head

    def forget(self) -> None:
        """Throw away every commit that no branch and no tag leads to."""
        git(self.root, "reflog", "expire", "--expire=now", "--all")
        git(self.root, "gc", "--quiet", "--prune=now")

    def blob(self, content: bytes = b"x") -> str:
        """An object with this content; its name."""
        return self._object("blob", content)

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A directory of these modes, names and objects, sound or not; its name."""
        raw = (
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(at) for mode, name, at in entries
        )
        return self._object("tree", b"".join(raw))

    def publish(self, tree: str) -> str:
        """Make a tree a commit, and let `main` be that."""
        commit = git(self.root, "commit-tree", "-m", "raw", tree)
        git(self.root, "update-ref", "refs/heads/main", commit)
        return commit

    def _object(self, kind: str, content: bytes) -> str:
        words = ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
        done = subprocess.run(words, cwd=self.root, input=content, capture_output=True, check=True)
        return done.stdout.decode().strip()
