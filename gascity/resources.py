"""Where the data that ships with the program lies; nobody else may guess paths."""

import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def data_dir(name: str) -> str:
    """A shipped directory: inside an installed package, or beside it in a checkout."""
    inside = os.path.join(_PACKAGE, "_data", name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(_PACKAGE), name)


def package_dir(name: str) -> str:
    """A directory of data files inside the package itself."""
    return os.path.join(_PACKAGE, name)
