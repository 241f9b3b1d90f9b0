"""SHA-256 of what is short, without `hashlib`, which takes longer to import than most plans."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # before Python 3.12
        except ImportError:
            from hashlib import sha256

_SHORT = 1 << 13  # bytes; from here on the other one, which is faster, is worth importing


def sha256_of(data: bytes) -> str:
    """In hexadecimal digits."""
    if len(data) < _SHORT:
        return sha256(data).hexdigest()
    import hashlib

    return hashlib.sha256(data).hexdigest()
