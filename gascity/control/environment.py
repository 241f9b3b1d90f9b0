"""Compares environments without sending their values, for `city doctor`."""

from collections.abc import Mapping
from hashlib import sha256


def environment_reply(
    environ: Mapping[str, str], request: Mapping[str, object]
) -> dict[str, object]:
    """Return the controller's PATH and digests of the variables that `doctor` asks about.

    The values may be secrets. The caller's salt makes the digests useless for anybody else.
    """
    names = request.get("names")
    salt = str(request.get("salt", ""))
    asked = [str(name) for name in names] if isinstance(names, list) else []
    return {
        "path": environ.get("PATH", ""),
        "digests": {name: variable_digest(environ, name, salt) for name in asked},
    }


def variable_digest(environ: Mapping[str, str], name: str, salt: str) -> str:
    """Return a digest of a variable's value; empty if it is not set."""
    value = environ.get(name)
    return "" if value is None else sha256(f"{salt}{value}".encode(errors="replace")).hexdigest()
