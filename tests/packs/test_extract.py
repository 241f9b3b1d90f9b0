"""A commit's directory in the cache: what is laid down, what is refused, and when it dies."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gascity.model.repositories import Remote
from gascity.packs import contents
from gascity.packs.extract import Extracted, extract, install
from gascity.packs.fetch import Mirror
from gascity.packs.repositories import PackError
from gascity.source.pack_cache import pack_directory, read_index, verify
from tests.support.git import git
from tests.support.repositories import Origin
from tests.support.trees import tree_text

_PACK = {"pack.toml": '[pack]\nname = "one"\n'}


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin", _PACK)


@pytest.fixture
def mirror(tmp_path: Path, origin: Origin) -> Mirror:
    return Mirror(str(tmp_path / "cache"), origin.url, os.environ)


def place(mirror: Mirror, commit: str, path: str = "") -> Path:
    return Path(pack_directory(mirror.cache, Remote(mirror.url, path), commit))


def refused(mirror: Mirror, commit: str, path: str = "") -> PackError:
    """Why a pack is refused; nothing of it is left."""
    with pytest.raises(PackError) as caught:
        install(mirror, path, commit)
    packs = Path(mirror.cache) / "packs"
    assert not packs.exists() or not list(packs.iterdir())
    return caught.value


# What is laid down


def test_a_directory_may_be_called_what_stands_before_a_dot(origin: Origin, mirror: Mirror) -> None:
    commit = origin.commit({"(a)/+b/-c/x.md": "x\n", "!/y.md": "y\n"})
    made = install(mirror, "", commit)
    tree = place(mirror, commit)
    assert (tree / "(a)/+b/-c/x.md").read_text() == "x\n"
    assert verify(str(tree), made.sha256) is None


def test_files_links_and_modes_are_laid_down(origin: Origin, mirror: Mirror) -> None:
    origin.commit({"bin/run": "#!/bin/sh\n", "docs/deep/a.md": "a\n", "pictures/p": b"\0\xff"})
    git(origin.root, "update-index", "--chmod=+x", "bin/run")
    git(origin.root, "commit", "--quiet", "--message", "mode")
    commit = origin.link("docs/b.md", "deep/a.md")
    made = install(mirror, "", commit)
    tree = place(mirror, commit)
    modes = {
        name: (tree / name).lstat().st_mode & 0o777
        for name in ("pack.toml", "bin/run", "docs", "docs/deep/a.md", "../..")
    }
    assert modes == {
        "pack.toml": 0o644,
        "bin/run": 0o755,
        "docs": 0o755,
        "docs/deep/a.md": 0o644,
        "../..": 0o700,
    }
    assert os.readlink(tree / "docs/b.md") == "deep/a.md"
    assert (tree / "pictures/p").read_bytes() == b"\0\xff"
    assert (made.files, made.bytes) == (5, 20 + 10 + 2 + 2 + 9)
    assert not (tree / ".git").exists()


def test_the_content_hash_is_that_of_modes_contents_and_paths(
    origin: Origin, mirror: Mirror
) -> None:
    commit = origin.link("a.toml", "pack.toml")
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in ("pack.toml", *_PACK.values())]
    lines = [f"120000 {digests[0]} a.toml\n", f"100644 {digests[1]} pack.toml\n"]
    expected = hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    assert install(mirror, "", commit).sha256 == expected


def test_only_the_directory_asked_for_is_laid_down(origin: Origin, mirror: Mirror) -> None:
    commit = origin.commit({"packs/a/pack.toml": "a\n", "packs/b/pack.toml": "b\n"})
    install(mirror, "packs/a", commit)
    assert tree_text(place(mirror, commit, "packs/a")) == "-- pack.toml --\na\n"


def test_two_commits_of_one_pack_lie_side_by_side(origin: Origin, mirror: Mirror) -> None:
    first, second = origin.head, origin.commit({"pack.toml": "other\n"})
    install(mirror, "", first)
    install(mirror, "", second)
    assert (place(mirror, first) / "pack.toml").read_text() == _PACK["pack.toml"]
    assert (place(mirror, second) / "pack.toml").read_text() == "other\n"


def test_what_was_laid_down_is_verified_without_being_read(
    origin: Origin, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.link("docs/b.md", "../pack.toml")
    commit = origin.commit({"docs/deep/a.md": "a\n"})
    made = install(mirror, "", commit)
    monkeypatch.setattr("gascity.source.pack_cache._is_same", None)
    assert verify(str(place(mirror, commit)), made.sha256) is None


def test_what_is_installed_needs_no_server_and_no_mirror(
    tmp_path: Path, origin: Origin, mirror: Mirror
) -> None:
    commit = origin.commit({"docs/a.md": "a\n"})
    made = install(mirror, "", commit)
    origin.root.rename(tmp_path / "elsewhere")
    subprocess.run(["rm", "-rf", f"{mirror.cache}/repos"], check=True)
    assert install(mirror, "", commit) == made
    assert not os.path.exists(f"{mirror.cache}/repos")


def test_a_changed_pack_is_laid_down_again(origin: Origin, mirror: Mirror) -> None:
    commit = origin.head
    made = install(mirror, "", commit)
    tree = place(mirror, commit)
    (tree / "pack.toml").write_text("changed\n")
    (tree / "more").write_text("more\n")
    assert install(mirror, "", commit) == made
    assert verify(str(tree), made.sha256) is None
    assert [path.name for path in tree.parents[1].iterdir()] == [tree.parent.name]


def test_a_pack_without_its_index_is_laid_down_again(origin: Origin, mirror: Mirror) -> None:
    commit = origin.head
    made = install(mirror, "", commit)
    (place(mirror, commit).parent / "index").unlink()
    assert install(mirror, "", commit) == made
    assert verify(str(place(mirror, commit)), made.sha256) is None


def test_a_mirror_with_a_broken_blob_is_fetched_again(origin: Origin, mirror: Mirror) -> None:
    commit = origin.commit({"noise": os.urandom(10_000)})
    mirror.ensure(commit)
    (pack,) = Path(mirror.directory, "objects/pack").glob("*.pack")
    pack.chmod(0o644)
    content = bytearray(pack.read_bytes())
    content[5000:5100] = bytes(100)
    pack.write_bytes(content)
    made = install(mirror, "", commit)
    assert (place(mirror, commit) / "noise").read_bytes() == (origin.root / "noise").read_bytes()
    assert verify(str(place(mirror, commit)), made.sha256) is None


def test_attributes_filters_and_line_ends_change_nothing(
    tmp_path: Path, origin: Origin, mirror: Mirror
) -> None:
    mark = tmp_path / "mark"
    settings = tmp_path / "gitconfig"
    settings.write_text(
        f'[filter "evil"]\nsmudge = touch {mark}\nprocess = touch {mark}\nrequired = true\n'
        "[core]\nautocrlf = true\n"
    )
    attributes = "* filter=evil text eol=crlf ident export-subst\nsecret export-ignore\n"
    commit = origin.commit(
        {".gitattributes": attributes, "a.md": "$Id$ $Format:%H$\n", "secret": "kept\n"}
    )
    mirror.environ = {**os.environ, "GIT_CONFIG_GLOBAL": str(settings)}
    install(mirror, "", commit)
    tree = place(mirror, commit)
    assert (tree / "a.md").read_bytes() == b"$Id$ $Format:%H$\n"
    assert (tree / "secret").read_text() == "kept\n"
    assert not mark.exists()


def test_names_may_be_in_any_language_and_differ_in_case_alone(
    origin: Origin, mirror: Mirror
) -> None:
    names = [
        "Grüße.md",
        "日本語/文書.md",
        "a b.md",
        "readme",
        "README",
        ".gitignore",
        "git~2",
        "...",
    ]
    commit = origin.commit({name: name for name in names})
    install(mirror, "", commit)
    found = {str(one.path) for one in read_index(str(place(mirror, commit))) or ()}
    assert found >= set(names)


def test_an_empty_directory_is_an_empty_pack(origin: Origin, mirror: Mirror) -> None:
    commit = origin.publish(origin.tree())
    assert install(mirror, "", commit) == Extracted(hashlib.sha256(b"").hexdigest(), 0, 0)


# What is refused


def test_a_missing_directory_is_reported_with_existing_ones(origin: Origin, mirror: Mirror) -> None:
    commit = origin.commit({"packs/review/pack.toml": "a\n", "packs/other/pack.toml": "b\n"})
    fault = refused(mirror, commit, "packs/reveiw")
    assert fault.code == "pack-path-missing"
    assert fault.message == f"there is no `packs/reveiw` in commit {commit[:12]}"
    assert fault.hint == "it has packs in `packs/review`"
    assert refused(mirror, commit, "review").hint == "it has packs in `packs/review`"
    assert refused(mirror, commit, "x").hint == "it has packs in `packs/other`, `packs/review`"


def test_a_file_is_no_directory(origin: Origin, mirror: Mirror) -> None:
    fault = refused(mirror, origin.head, "pack.toml")
    assert fault.code == "pack-path-missing"
    assert "is not a directory" in fault.message
    assert (
        fault.hint == "none of its directories has a pack.toml; omit `//` if the pack is at its top"
    )


def test_a_missing_directory_is_reported_in_a_large_repository(
    origin: Origin, mirror: Mirror
) -> None:
    tree = origin.blob()
    for mode in ("100644", *["040000"] * 11):
        tree = origin.tree(*((mode, b"%d" % number, tree) for number in range(10)))
    commit = origin.publish(tree)
    assert refused(mirror, commit, "nowhere").code == "pack-path-missing"


def test_submodules_are_refused_each_by_name(origin: Origin, mirror: Mirror) -> None:
    for path in ("vendor/one", "vendor/two"):
        git(origin.root, "update-index", "--add", "--cacheinfo", f"160000,{origin.head},{path}")
    git(origin.root, "commit", "--quiet", "--message", "modules")
    fault = refused(mirror, origin.head)
    assert fault.code == "pack-submodule"
    assert fault.message == "`vendor/one` is a submodule; `vendor/two` is a submodule"


def test_a_submodule_beside_the_pack_is_none_of_its_business(
    origin: Origin, mirror: Mirror
) -> None:
    origin.commit({"packs/a/pack.toml": "a\n"})
    git(origin.root, "update-index", "--add", "--cacheinfo", f"160000,{origin.head},vendor")
    git(origin.root, "commit", "--quiet", "--message", "module")
    assert install(mirror, "packs/a", origin.head).files == 1


@pytest.mark.parametrize(
    "links",
    [
        {"a": "/etc/passwd"},
        {"a": "../outside"},
        {"docs/a": "../../outside"},
        {"docs/a": "x/../../../outside"},
        {"a": "docs/../.."},
        {"up": "docs/back", "docs/back": "../.."},
        {"docs/deep": "..", "a": "docs/deep/../outside"},
        {"a": "b", "b": "c", "c": "/tmp"},
    ],
)
def test_links_that_leave_the_pack_are_refused(
    origin: Origin, mirror: Mirror, links: dict[str, str]
) -> None:
    origin.commit({"docs/x/y.md": "y\n"})
    for path, target in links.items():
        commit = origin.link(path, target)
    fault = refused(mirror, commit)
    assert fault.code == "link-leaves-pack"
    assert "leads out of the pack, to " in fault.message


def test_a_link_may_not_leave_the_pack_within_its_repository(
    origin: Origin, mirror: Mirror
) -> None:
    origin.commit({"packs/a/pack.toml": "a\n", "shared/b.md": "b\n"})
    fault = refused(mirror, origin.link("packs/a/b.md", "../../shared/b.md"), "packs/a")
    assert fault.message == "`b.md` leads out of the pack, to ../../shared/b.md"


@pytest.mark.parametrize(
    "links",
    [
        {"a": "docs/x/y.md"},
        {"docs/a": "../pack.toml"},
        {"docs/here": ".", "a": "docs/here/here/x/y.md"},
        {"a": "nowhere/at/all"},
        {"a": "b", "b": "a"},
        {"a": "a/../b"},
    ],
)
def test_links_that_stay_in_the_pack_are_kept_wherever_they_lead(
    origin: Origin, mirror: Mirror, links: dict[str, str]
) -> None:
    origin.commit({"docs/x/y.md": "y\n"})
    for path, target in links.items():
        commit = origin.link(path, target)
    made = install(mirror, "", commit)
    assert {path: os.readlink(place(mirror, commit) / path) for path in links} == links
    assert verify(str(place(mirror, commit)), made.sha256) is None


def test_where_an_endless_link_leads_is_not_even_read(
    origin: Origin, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = origin.blob(b"x" * 5000)
    commit = origin.publish(origin.tree(("120000", b"a", blob), ("120000", b"b", blob)))
    monkeypatch.setattr(contents.BlobReader, "read", lambda *_: pytest.fail("it was read"))
    assert refused(mirror, commit).code == "pack-hostile-path"


@pytest.mark.parametrize("target", [b"", b"a\0b", b"x" * 5000])
def test_a_link_that_no_system_could_make_is_refused(
    origin: Origin, mirror: Mirror, target: bytes
) -> None:
    commit = origin.publish(origin.tree(("120000", b"a", origin.blob(target))))
    fault = refused(mirror, commit)
    assert fault.code == "pack-hostile-path"
    assert fault.message == "`a` is a link that cannot be created"


@pytest.mark.parametrize(
    "name",
    [
        b".git",
        b".GIT",
        b".Git ",
        b".git...",
        b".git::$INDEX_ALLOCATION",
        b"git~1",
        b"GIT~1",
        ".g\u200cit".encode(),
        "\ufeff.git".encode(),
        b"..",
        b".",
        b"a\\b",
        b"a\nb",
        b"a\x1b[2J",
        b"a\x7f",
        "a\u0085b".encode(),
        b"\xff\xfe",
        b"x" * 256,
        b"a/b",
        b"../a",
        b"/etc/passwd",
    ],
)
@pytest.mark.parametrize("deep", [False, True], ids=["at the top", "below"])
def test_hostile_names_are_refused(origin: Origin, mirror: Mirror, name: bytes, deep: bool) -> None:
    tree = origin.tree(("100644", name, origin.blob()))
    if deep:
        tree = origin.tree(("40000", b"docs", tree))
    fault = refused(mirror, origin.publish(tree))
    assert fault.code == "pack-hostile-path"
    assert fault.message.isprintable()
    assert fault.message.isascii()


def test_a_hostile_directory_is_refused(origin: Origin, mirror: Mirror) -> None:
    inner = origin.tree(("100644", b"config", origin.blob()))
    fault = refused(mirror, origin.publish(origin.tree(("40000", b".GiT", inner))))
    assert fault.code == "pack-hostile-path"
    assert "`.GiT` would be a repository of its own" in fault.message


def test_a_file_below_a_link_of_the_same_name_is_refused(
    tmp_path: Path, origin: Origin, mirror: Mirror
) -> None:
    inner = origin.tree(("100644", b"b", origin.blob()))
    away = origin.blob(str(tmp_path).encode())
    tree = origin.tree(("120000", b"a", away), ("40000", b"a", inner))
    assert refused(mirror, origin.publish(tree)).code == "pack-hostile-path"
    assert not (tmp_path / "b").exists()


def test_a_duplicate_name_is_refused(origin: Origin, mirror: Mirror) -> None:
    tree = origin.tree(("100644", b"a", origin.blob()), ("100755", b"a", origin.blob(b"y")))
    assert refused(mirror, origin.publish(tree)).code == "pack-hostile-path"


def test_a_path_that_is_too_long_is_refused(origin: Origin, mirror: Mirror) -> None:
    tree = origin.tree(("100644", b"a", origin.blob()))
    for _ in range(20):
        tree = origin.tree(("40000", b"d" * 200, tree))
    fault = refused(mirror, origin.publish(tree))
    assert fault.code == "pack-hostile-path"
    assert "is too long" in fault.message


def test_a_directory_without_end_is_left_early(origin: Origin, mirror: Mirror) -> None:
    tree = origin.tree(("100644", b"a", origin.blob()))
    for _ in range(10):  # ten billion files in a few hundred bytes
        tree = origin.tree(*(("40000", b"%d" % n, tree) for n in range(10)))
    fault = refused(mirror, origin.publish(tree))
    assert fault.code == "pack-too-large"
    assert fault.message == "the pack has more than 20,000 files"


def test_directories_without_end_and_files_are_left_early(origin: Origin, mirror: Mirror) -> None:
    tree = origin.tree()
    for _ in range(10):
        tree = origin.tree(*(("40000", b"%d" % n, tree) for n in range(10)))
    assert refused(mirror, origin.publish(tree)).code == "pack-too-large"


@pytest.mark.parametrize(
    ("bound", "most", "words"),
    [
        ("MAX_FILES", 2, "the pack has more than 2 files"),
        ("MAX_BYTES", 300, "the pack has 320 bytes, more than 300"),
        ("MAX_FILE_BYTES", 150, "`b` has 200 bytes, more than 150"),
    ],
)
def test_a_pack_that_is_too_large_is_refused(
    origin: Origin,
    mirror: Mirror,
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    most: int,
    words: str,
) -> None:
    commit = origin.commit({"a": "a" * 100, "b": "b" * 200})
    monkeypatch.setattr(contents, bound, most)
    fault = refused(mirror, commit)
    assert (fault.code, fault.message) == ("pack-too-large", words)
    monkeypatch.setattr(contents, bound, 1000)
    assert install(mirror, "", commit).files == 3


def test_ten_bad_entries_are_named_and_the_others_counted(origin: Origin, mirror: Mirror) -> None:
    for n in range(12):
        commit = origin.link(f"link{n:02}", "/etc/passwd")
    message = refused(mirror, commit).message
    assert "`link09`" in message
    assert "`link10`" not in message
    assert message.endswith("; and 2 more")


# Deaths and races


_DYING = """
import os, sys
from gascity.packs.extract import extract
from gascity.packs.fetch import Mirror
from gascity.source.pack_cache import verify
from tests.support.killer import KILL, _Counter, _wrap
cache, url, commit, into, sha256 = sys.argv[1:]
mirror = Mirror(cache, url, os.environ)
deaths = 0
while True:
    child = os.fork()
    if child == 0:
        _wrap(_Counter(deaths + 1, KILL))
        extract(mirror, commit, "", into)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    finished = os.path.exists(into)
    if finished:
        assert verify(into + "/tree", sha256) is None, deaths
        os.rename(into, cache + "/seen%d" % deaths)
    if os.waitstatus_to_exitcode(status) == 0:
        break
    deaths += 1
assert finished
extract(mirror, commit, "", into)
print(deaths)
"""


def test_a_death_leaves_nothing_that_looks_finished(
    tmp_path: Path, origin: Origin, mirror: Mirror
) -> None:
    origin.link("docs/b.md", "../pack.toml")
    commit = origin.commit({"docs/deep/a.md": "a\n"})
    made = install(mirror, "", commit)
    into = tmp_path / "cache/packs/again"
    words = [mirror.cache, origin.url, commit, str(into), made.sha256]
    done = subprocess.run(
        [sys.executable, "-c", _DYING, *words],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert int(done.stdout) > 12
    assert verify(str(into / "tree"), made.sha256) is None
    names = {path.name for path in into.parent.iterdir()}
    assert names == {"again", place(mirror, commit).parent.name}


def test_several_processes_may_lay_down_one_pack(
    tmp_path: Path, origin: Origin, mirror: Mirror
) -> None:
    commit = origin.commit({f"{n}.md": f"{n}\n" for n in range(300)})
    code = (
        "import os, sys; from gascity.packs.fetch import Mirror;"
        "from gascity.packs.extract import install;"
        "print(install(Mirror(sys.argv[1], sys.argv[2], os.environ), '', sys.argv[3]).sha256)"
    )
    words = [str(tmp_path / "cache"), origin.url, commit]
    running = [
        subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    (sha256,) = {process.communicate(timeout=60)[0].strip() for process in running}
    tree = place(mirror, commit)
    assert verify(str(tree), sha256) is None
    assert [path.name for path in tree.parents[1].iterdir()] == [tree.parent.name]


def test_one_that_was_quicker_is_kept(origin: Origin, mirror: Mirror) -> None:
    commit = origin.head
    made = install(mirror, "", commit)
    tree = place(mirror, commit)
    before = tree.stat().st_ino
    assert extract(mirror, commit, "", str(tree.parent)) == made
    assert tree.stat().st_ino == before
