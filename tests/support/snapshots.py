"""Exact directory contents, and temporary files left behind."""

import os
import stat
from pathlib import Path

Picture = dict[str, tuple[str, object]]


def picture(root: Path, *, but: tuple[str, ...] = (".git",)) -> Picture:
    """Return kind or mode, and content or target, of each path; empty if there is no directory."""
    found: Picture = {}
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in but)
        for name in sorted((*folders, *names)):
            path = Path(directory, name)
            mode = path.lstat().st_mode
            shown = str(path.relative_to(root))
            if stat.S_ISLNK(mode):
                found[shown] = ("link", os.readlink(path))
            elif stat.S_ISDIR(mode):
                found[shown] = ("directory", None)
            elif stat.S_ISREG(mode):
                found[shown] = (f"{mode & 0o7777:o}", path.read_bytes())
            elif name not in but:
                found[shown] = ("special", stat.S_IFMT(mode))
    return {path: value for path, value in found.items() if Path(path).name not in but}


def scratch(root: Path) -> list[str]:
    """Return temporary files of interrupted writes below a directory."""
    return sorted(
        os.path.join(directory, name)
        for directory, folders, names in os.walk(root)
        for name in (*folders, *names)
        if ".city-" in name
        or name.endswith(".next")
        or (name[0] == "." and "mcp-adopted" in directory)
    )
