"""Packs in the cache: where they are, and whether they still are what was put there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.repositories import Remote
from gascity.packs.extract import install
from gascity.packs.fetch import Mirror
from gascity.source.pack_cache import (
    CachedFile,
    Changed,
    cache_directory,
    content_hash,
    pack_directory,
    stamp_of,
    verify,
)
from tests.support.repositories import Origin


class Pack(NamedTuple):
    """A pack that was laid into the cache."""

    tree: Path
    sha256: str

    def verified(self) -> Changed | None:
        return verify(str(self.tree), self.sha256)


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    origin = Origin(tmp_path / "origin", {"pack.toml": "one\n", "docs/deep/a.md": "two\n"})
    commit = origin.link("docs/b.md", "deep/a.md")
    mirror = Mirror(str(tmp_path / "cache"), origin.url, os.environ)
    made = install(mirror, "", commit)
    return Pack(Path(pack_directory(mirror.cache, Remote(origin.url), commit)), made.sha256)


# Places


def test_the_cache_belongs_to_the_user() -> None:
    assert cache_directory({"HOME": "/home/ann"}) == "/home/ann/.cache/gascity"
    assert cache_directory({"HOME": "/home/ann", "XDG_CACHE_HOME": "/var/c"}) == "/var/c/gascity"


def test_a_pack_has_one_place_however_its_address_is_written() -> None:
    written = ("https://example.org/a/b", "https://Example.org/a/b.git", "https://example.org/a/b/")
    assert len({pack_directory("/c", Remote(url, "p"), "1" * 40) for url in written}) == 1


def test_every_commit_directory_and_repository_has_a_place_of_its_own() -> None:
    places = {
        pack_directory("/c", Remote(url, path), commit)
        for url in ("https://example.org/a", "https://example.org/b")
        for path in ("", "p", "p/q")
        for commit in ("1" * 40, "2" * 40)
    }
    assert len(places) == 12
    assert all(place.startswith("/c/packs/") and place.endswith("/tree") for place in places)


# Changes


def test_a_pack_is_as_it_was_put_there(pack: Pack) -> None:
    assert pack.verified() is None
    assert verify(str(pack.tree)) is None


def rewritten(tree: Path) -> None:
    (tree / "docs/deep/a.md").write_text("TWO\n")


def rewritten_with_its_time_kept(tree: Path) -> None:
    file = tree / "docs/deep/a.md"
    before = file.stat()
    file.write_text("TWO\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def longer(tree: Path) -> None:
    with (tree / "docs/deep/a.md").open("a") as file:
        file.write("more\n")


def replaced(tree: Path) -> None:
    (tree / "new").write_text("TWO\n")
    (tree / "new").rename(tree / "docs/deep/a.md")


def executable(tree: Path) -> None:
    (tree / "docs/deep/a.md").chmod(0o755)


def linked(tree: Path) -> None:
    (tree / "docs/deep/a.md").rename(tree.parent / "a.md")
    (tree / "docs/deep/a.md").symlink_to(tree.parent / "a.md")


def linked_by_its_own_text(tree: Path) -> None:
    file = tree / "docs/deep/a.md"
    text = file.read_text()
    file.unlink()
    file.symlink_to(text)


def hidden(tree: Path) -> None:
    (tree / "docs/deep/a.md").unlink()
    os.mkfifo(tree / "docs/deep/a.md")


@pytest.mark.parametrize(
    "change",
    [
        rewritten,
        rewritten_with_its_time_kept,
        longer,
        replaced,
        executable,
        linked,
        linked_by_its_own_text,
        hidden,
    ],
)
def test_a_changed_file_is_named(pack: Pack, change: Callable[[Path], None]) -> None:
    change(pack.tree)
    found = pack.verified()
    assert found == Changed("docs/deep/a.md", "changed")
    assert found.message == "`docs/deep/a.md` was changed after it was fetched"


def test_a_missing_file_is_named(pack: Pack) -> None:
    (pack.tree / "docs/deep/a.md").unlink()
    found = pack.verified()
    assert found == Changed("docs/deep/a.md", "missing")
    assert found.message == "`docs/deep/a.md` is missing, but existed when the pack was fetched"


@pytest.mark.parametrize("path", ["new.md", ".hidden", "docs/deep/new.md", "docs/new/"])
def test_an_added_file_is_named(pack: Pack, path: str) -> None:
    if path.endswith("/"):
        (pack.tree / path).mkdir()
    else:
        (pack.tree / path).write_text("")
    found = pack.verified()
    assert found == Changed(path.rstrip("/"), "added")
    assert found.message == f"`{path.rstrip('/')}` did not exist when the pack was fetched"


def test_a_link_that_leads_elsewhere_is_named(pack: Pack) -> None:
    (pack.tree / "docs/b.md").unlink()
    (pack.tree / "docs/b.md").symlink_to("../pack.toml")
    assert pack.verified() == Changed("docs/b.md", "changed")


def test_a_directory_that_became_a_link_is_named(pack: Pack) -> None:
    (pack.tree / "docs").rename(pack.tree.parent / "docs")
    (pack.tree / "docs").symlink_to(pack.tree.parent / "docs")
    assert pack.verified() == Changed("docs", "changed")


def test_a_pack_that_is_not_there_is_missing(pack: Pack) -> None:
    shutil.rmtree(pack.tree)
    assert pack.verified() == Changed(".", "missing")
    shutil.rmtree(pack.tree.parent)
    assert pack.verified() == Changed("../index", "missing")


def test_a_restored_backup_is_as_good(pack: Pack, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(pack.tree.parent, copy, symlinks=True)
    for directory, _, files in os.walk(copy):
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            os.utime(path, (1, 1), follow_symlinks=False)
    shutil.rmtree(pack.tree.parent)
    copy.rename(pack.tree.parent)
    assert pack.verified() is None
    rewritten(pack.tree)
    assert pack.verified() == Changed("docs/deep/a.md", "changed")


def test_another_content_than_the_lock_asks_for_is_refused(pack: Pack) -> None:
    found = verify(str(pack.tree), "0" * 64)
    assert found == Changed("", "other")
    assert found.message == "the pack in the cache is not the one that packs.lock names"


def forged(pack: Pack, *paths: str) -> None:
    """Somebody else writes the stamps of these paths as they are now, and no others."""
    index = pack.tree.parent / "index"
    content = index.read_text().partition("\ncontent\n")[2]
    lines = [f"{stamp_of((pack.tree / path).lstat())} {path}" for path in paths]
    index.write_text("\n".join([*lines, "content", content]))
    index.chmod(0o666)


@pytest.mark.parametrize("known", [(".",), (".", "docs", "docs/b.md", "docs/deep", "pack.toml")])
def test_stamps_that_others_could_write_are_worth_nothing(
    pack: Pack, known: tuple[str, ...]
) -> None:
    forged(pack, *known)
    assert pack.verified() is None
    (pack.tree / "pack.toml").write_text("One\n")
    forged(pack, *known)
    assert pack.verified() == Changed("pack.toml", "changed")


def test_a_file_that_others_added_and_stamped_is_named(pack: Pack) -> None:
    (pack.tree / "docs/c.md").write_text("three\n")
    forged(pack, ".", "docs", "docs/b.md", "docs/c.md", "docs/deep", "docs/deep/a.md", "pack.toml")
    assert pack.verified() == Changed("docs/c.md", "added")


def test_an_index_that_was_made_to_fit_is_found_out_by_the_lock(pack: Pack) -> None:
    from hashlib import sha256

    rewritten(pack.tree)
    index = pack.tree.parent / "index"
    old, new = (sha256(text).hexdigest() for text in (b"two\n", b"TWO\n"))
    index.write_text(index.read_text().replace(old, new))
    assert verify(str(pack.tree)) is None
    assert pack.verified() == Changed("", "other")


@pytest.mark.parametrize("text", ["", "end\n", "\n", "nonsense\n", "nonsense\nend\n", "\xff"])
def test_an_incomplete_index_is_invalid(pack: Pack, text: str) -> None:
    (pack.tree.parent / "index").write_bytes(text.encode("latin-1"))
    assert verify(str(pack.tree)) is not None


def test_half_an_index_is_no_index(pack: Pack) -> None:
    index = pack.tree.parent / "index"
    lines = index.read_text().splitlines(keepends=True)
    for count in range(len(lines)):
        index.write_text("".join(lines[:count]))
        assert verify(str(pack.tree)) == Changed("../index", "missing")


# Laws


_entries = st.lists(
    st.builds(
        CachedFile,
        st.sampled_from(["100644", "100755", "120000"]),
        st.sampled_from(["0" * 64, "1" * 64]),
        st.just("1:2:3:4"),
        st.sampled_from(["a", "b", "a b", "c/d"]),
    ),
    unique_by=lambda entry: entry.path,
)


@given(_entries)
def test_the_content_hash_knows_no_order_and_no_times(entries: list[CachedFile]) -> None:
    later = [entry._replace(stamp="5:6:7:8") for entry in reversed(entries)]
    assert content_hash(entries) == content_hash(later)


@given(_entries, _entries)
def test_other_content_has_another_hash(one: list[CachedFile], other: list[CachedFile]) -> None:
    same = set(one) == set(other)
    assert (content_hash(one) == content_hash(other)) == same


def test_verifying_imports_nothing_heavy(pack: Pack) -> None:
    code = (
        "import sys; from gascity.source.pack_cache import verify;"
        "print(verify(*sys.argv[1:]), [name for name in"
        " ('subprocess', 'git', 'tempfile', 'shutil', 'json') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(pack.tree), pack.sha256],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "None []\n"
