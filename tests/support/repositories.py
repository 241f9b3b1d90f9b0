"""Real remote repositories to import packs from, served from this disk."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.git import commit, git, head
from tests.support.trees import build_tree


class Origin:
    """A repository with a URL.

    `origin.commit({"pack.toml": "…"})`, then `origin.url`; changes are public at once.
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
        """Write and commit files on the current branch; return the commit's hash."""
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
        """Tag the current commit; return its hash."""
        git(self.root, "tag", *(["--annotate", "--message", name] if annotated else []), name)
        return self.head

    def delete_tag(self, name: str) -> None:
        git(self.root, "tag", "--delete", name)

    def branch(self, name: str) -> None:
        """Switch to a branch; create it if it does not exist."""
        known = git(self.root, "for-each-ref", f"refs/heads/{name}")
        git(self.root, "checkout", "--quiet", *([] if known else ["-b"]), name)

    def force_push(self, files: Mapping[str, str | bytes], *, forget: bool = True) -> str:
        """Replace the current commit, as `git push --force` does.

        With `forget`, the server no longer has the old commit.
        """
        build_tree(self.root, files)
        git(self.root, "add", "--force", "--", *files)
        git(self.root, "commit", "--quiet", "--amend", "--allow-empty", "--message", "instead")
        if forget:
            self.forget()
        return self.head

    def forget(self) -> None:
        """Delete every commit that no branch or tag reaches."""
        git(self.root, "reflog", "expire", "--expire=now", "--all")
        git(self.root, "gc", "--quiet", "--prune=now")

    def blob(self, content: bytes = b"x") -> str:
        """Write a blob with this content; return its hash."""
        return self._object("blob", content)

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """Write a tree of these modes, names and objects, valid or not; return its hash."""
        raw = (
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(at) for mode, name, at in entries
        )
        return self._object("tree", b"".join(raw))

    def publish(self, tree: str) -> str:
        """Commit a tree and point `main` to it."""
        commit = git(self.root, "commit-tree", "-m", "raw", tree)
        git(self.root, "update-ref", "refs/heads/main", commit)
        return commit

    def _object(self, kind: str, content: bytes) -> str:
        words = ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
        done = subprocess.run(words, cwd=self.root, input=content, capture_output=True, check=True)
        return done.stdout.decode().strip()
