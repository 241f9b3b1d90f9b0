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


def render(template: str, **values: object) -> str:
    """Fill one of our own texts, a Jinja2 file under gascity/scaffolds."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(package_dir("scaffolds")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
