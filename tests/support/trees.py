"""Directory trees as text: written from a mapping, read back as something a reviewer can read."""

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


def tree_text(root: Path, *, skip: tuple[str, ...] = (".gc",)) -> str:
    """Every file below `root` with a heading, its mode if it can be run, and its text."""
    parts = []
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(folder for folder in folders if folder not in skip)
        for name in sorted(names):
            path = Path(directory) / name
            mode = " (executable)" if path.stat().st_mode & 0o100 else ""
            parts.append(f"-- {path.relative_to(root)}{mode} --\n{path.read_text()}")
    return "\n".join(parts)
