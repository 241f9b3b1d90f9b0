"""Compares environments without sending their values, for `city doctor`."""

from collections.abc import Mapping
from hashlib import sha256

from gascity.model.values import JsonObject, as_list


def environment_reply(environ: Mapping[str, str], request: Mapping[str, object]) -> JsonObject:
    """Return the controller's PATH and digests of the variables that `doctor` asks about.

    The values may be secrets. The caller's salt makes the digests useless for anybody else.
    """
    salt = str(request.get("salt", ""))
    names = map(str, as_list(request.get("names")))
    return {
        "path": environ.get("PATH", ""),
        "digests": {name: variable_digest(environ, name, salt) for name in names},
    }


def variable_digest(environ: Mapping[str, str], name: str, salt: str) -> str:
    """Return a digest of a variable's value; empty if it is not set."""
    value = environ.get(name)
    return "" if value is None else sha256(f"{salt}{value}".encode(errors="replace")).hexdigest()
