"""Paths of the data files that ship with the program."""

import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def data_dir(name: str) -> str:
    """Return a data directory: inside an installed package, or beside it in a checkout."""
    installed = os.path.join(_PACKAGE, "_data", name)
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(_PACKAGE), name)


def package_dir(name: str) -> str:
    """Return a directory of data files inside the package."""
    return os.path.join(_PACKAGE, name)
