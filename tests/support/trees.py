"""Writes directory trees from a mapping and prints them as readable text."""

import os
from collections.abc import Mapping
from pathlib import Path


def build_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files by relative path; a path that ends in `/` is an empty directory."""
    for name, content in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def tree_text(root: Path, *, skip: tuple[str, ...] = (".gc", ".git")) -> str:
    """Return each file below `root` with a heading and its text, links, and modes except 0644."""
    parts = []
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(folder for folder in folders if folder not in skip)
        links = [folder for folder in folders if (Path(directory) / folder).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(directory) / name
            shown = path.relative_to(root)
            if path.is_symlink():
                parts.append(f"-- {shown} -> {os.readlink(path)} --\n")
                continue
            mode = path.stat().st_mode & 0o755  # ignore bits that depend on the machine's umask
            note = "" if mode == 0o644 else f" ({mode:04o})"
            parts.append(f"-- {shown}{note} --\n{path.read_text()}")
    return "\n".join(parts)
