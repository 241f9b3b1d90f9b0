"""The short way to a hash gives the hash that everybody else computes."""

from hashlib import sha256

import pytest

from gascity.model.hashes import sha256_of


@pytest.mark.parametrize("size", [0, 1, 64, 8191, 8192, 100_000])
def test_short_and_long_content_has_the_hash_of_the_library(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert sha256_of(data[:size]) == sha256(data[:size]).hexdigest()
