"""Directories deleted whole: out of sight first, then piece by piece."""

import os


def clear_away(path: str) -> None:
    """Delete a directory with all in it; what a killed call left of it goes too."""
    clear(aside(path))
    os.rename(path, aside(path))
    clear(aside(path))


def aside(path: str) -> str:
    """Where a directory is on its way out; what a killed removal leaves there, the next ends."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.city-removed")


def clear(path: str) -> None:
    """Delete a directory with all in it, also what may not be written; no link is followed."""
    import shutil

    if os.path.islink(path) or not os.path.isdir(path):
        return
    os.chmod(path, 0o700)
    for above, names, _ in os.walk(path):
        for name in names:
            inner = f"{above}/{name}"
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)
    shutil.rmtree(path)
