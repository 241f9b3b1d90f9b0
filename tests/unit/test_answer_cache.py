"""Kept answers: given again only while every stamp holds, whatever is in the file."""

import os
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from gascity.startup.answer_cache import CommandOutput, answer, recall, store, variant

SHAPE = "agent-list"
NOW = 4_000_000_000_000_000_000  # long after every file was written
OUT, ERR = b"2 agents:\n\n  m\xc3\xa4yor\n", b"city: a note\n"


def given(stored: CommandOutput | None) -> tuple[bytes, bytes, int] | None:
    return (stored.out, stored.err, stored.code) if stored else None


Stamp = tuple[int, int, int, int] | None


def stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "city.toml").write_text("[workspace]\n")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/agent.toml").write_text("hidden = true\n")
    return tmp_path


def seen(root: Path) -> dict[str, Stamp]:
    names = ("agents", "agents/agent.toml", "city.local.toml", "city.toml", "pack.toml")
    return {str(root / name): stamp(root / name) for name in names}


@pytest.fixture
def kept(root: Path) -> Path:
    """The file of an answer that holds."""
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(OUT, ERR), NOW)
    assert given(recall(str(root), SHAPE, "variant")) == (OUT, ERR, 0)
    return root / ".gc/cache" / SHAPE


def test_an_answer_is_given_again_byte_for_byte(root: Path) -> None:
    out = bytes(range(256)) * 3
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(out, b"\n\n"), NOW)
    assert given(recall(str(root), SHAPE, "variant")) == (out, b"\n\n", 0)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("wanted", ["", "other", "variant ", "varian", "variant\nmore"])
def test_another_variant_has_no_answer(root: Path, wanted: str) -> None:
    assert recall(str(root), SHAPE, wanted) is None


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "city.toml").write_text("[wrkspace]\n"), id="content"),
        pytest.param(lambda root: (root / "city.toml").unlink(), id="removed"),
        pytest.param(lambda root: (root / "pack.toml").write_text(""), id="created"),
        pytest.param(lambda root: (root / "agents/new").mkdir(), id="entry-added"),
        pytest.param(lambda root: (root / "agents/agent.toml").chmod(0o600), id="mode"),
        pytest.param(lambda root: os.utime(root / "city.toml", ns=(0, 0)), id="time"),
        pytest.param(lambda root: (root / "agents").rename(root / "moved"), id="moved"),
        pytest.param(lambda root: (root / "pack.toml").symlink_to("city.toml"), id="linked"),
    ],
)
def test_any_change_ends_it(root: Path, change: object) -> None:
    change(root)  # type: ignore[operator]
    assert recall(str(root), SHAPE, "variant") is None


@pytest.mark.usefixtures("kept")
def test_an_edit_of_the_same_size_with_its_time_set_back_ends_it(root: Path) -> None:
    file = root / "agents/agent.toml"
    before = file.stat()
    file.write_text("hidden = fals\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert recall(str(root), SHAPE, "variant") is None


@pytest.mark.usefixtures("kept")
def test_a_file_put_in_place_of_another_with_its_size_and_time_ends_it(root: Path) -> None:
    file = root / "agents/agent.toml"
    before = file.stat()
    other = root / "other"
    other.write_text("hidden = fals\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert recall(str(root), SHAPE, "variant") is None


@pytest.mark.parametrize("years", [-50, 50], ids=["long-ago", "far-ahead"])
def test_odd_times_of_files_are_kept_and_noticed(root: Path, years: int) -> None:
    file = root / "agents/agent.toml"
    there = file.stat().st_mtime_ns + years * 365 * 86_400 * 10**9
    os.utime(file, ns=(there, there))
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(OUT, ERR), NOW)
    assert given(recall(str(root), SHAPE, "variant")) == (OUT, ERR, 0)
    file.write_text("hidden = fals\n")
    os.utime(file, ns=(there, there))
    assert recall(str(root), SHAPE, "variant") is None


def test_what_changed_a_moment_ago_is_not_kept(root: Path) -> None:
    """It may change once more within the same tick, and look the same."""
    newest = max(found[1] for found in seen(root).values() if found)
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(OUT, ERR), newest + 1_000_000)
    assert not (root / ".gc").exists()


def test_what_changed_after_now_is_not_kept(root: Path) -> None:
    """The clock was set back: nothing can be said of what changes next."""
    oldest = min(found[1] for found in seen(root).values() if found)
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(OUT, ERR), oldest - 10**12)
    assert not (root / ".gc").exists()


def test_whole_seconds_are_taken_for_a_coarse_clock(root: Path) -> None:
    second = 1_700_000_000_000_000_000
    stamps: dict[str, Stamp] = {str(root / "city.toml"): (second, second, 12, 1)}
    store(str(root), SHAPE, "variant", stamps, CommandOutput(OUT, ERR), second + 1_000_000_000)
    assert not (root / ".gc").exists()
    store(str(root), SHAPE, "variant", stamps, CommandOutput(OUT, ERR), second + 3_000_000_000)
    assert (root / ".gc/cache" / SHAPE).exists()


def test_an_answer_that_did_not_look_at_city_toml_is_not_kept(root: Path) -> None:
    stamps = seen(root)
    del stamps[str(root / "city.toml")]
    store(str(root), SHAPE, "variant", stamps, CommandOutput(OUT, ERR), NOW)
    assert not (root / ".gc").exists()


def test_a_path_with_a_line_break_is_not_kept(root: Path) -> None:
    paths: dict[str, Stamp] = {**seen(root), "/a\nb": None}
    store(str(root), SHAPE, "variant", paths, CommandOutput(OUT, ERR), NOW)
    assert not (root / ".gc").exists()


# --- corrupted -------------------------------------------------------------------------------


def test_a_file_cut_off_anywhere_is_not_believed(root: Path, kept: Path) -> None:
    data = kept.read_bytes()
    for length in range(len(data)):
        kept.write_bytes(data[:length])
        assert recall(str(root), SHAPE, "variant") is None, length


def test_a_file_with_a_byte_changed_anywhere_is_not_believed(root: Path, kept: Path) -> None:
    data = kept.read_bytes()
    believed = []
    for at in range(len(data)):
        for bit in (0x01, 0x80):
            kept.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            if recall(str(root), SHAPE, "variant") is not None:
                believed.append(data[max(0, at - 10) : at + 10])
    assert believed == []


def test_a_file_with_a_line_lost_is_not_believed(root: Path, kept: Path) -> None:
    head, _, body = kept.read_bytes().partition(b"\n\n")
    lines = head.split(b"\n")
    for at in range(len(lines)):
        kept.write_bytes(b"\n".join(lines[:at] + lines[at + 1 :]) + b"\n\n" + body)
        assert recall(str(root), SHAPE, "variant") is None, lines[at]


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"\n\n", b"\0" * 100, b"\xff" * 1000, b"gascity-answer 2", b"\n" * 10_000],
    ids=["empty", "newline", "newlines", "zeros", "bytes", "magic-alone", "many-lines"],
)
def test_nonsense_is_not_believed(root: Path, kept: Path, data: bytes) -> None:
    kept.write_bytes(data)
    assert recall(str(root), SHAPE, "variant") is None
    kept.write_bytes(kept.read_bytes() + data)
    assert recall(str(root), SHAPE, "variant") is None


# --- hostile ---------------------------------------------------------------------------------


def forged(stamps: list[str], text: bytes = b"owned\n", sizes: bytes | None = None) -> bytes:
    """A kept answer made up by somebody who knows the format but not this machine's times."""
    head = "\n".join(["gascity-answer 2", "variant", *stamps]).encode()
    if sizes is None:
        sizes = b"%d 0 0" % len(text)
        sizes += b" %d" % zlib.crc32(b"%s\n%s\n%s" % (head, sizes, text))
    return head + b"\n\n" + sizes + b"\n" + text


def test_a_forger_who_knew_the_times_would_be_believed(root: Path, kept: Path) -> None:
    """That is what the tests below rest on: only the stamps are wrong in them."""
    true_line = kept.read_bytes().split(b"\n")[2].decode()
    kept.write_bytes(forged([true_line]))
    assert given(recall(str(root), SHAPE, "variant")) == (b"owned\n", b"", 0)


@pytest.mark.parametrize(
    "stamps",
    [
        pytest.param([], id="none"),
        pytest.param([""], id="an-empty-one"),
        pytest.param(["- /nowhere/at/all"], id="an-absent-file"),
        pytest.param(["- {root}/city.toml"], id="city.toml-said-to-be-absent"),
        pytest.param(["0:0:0:0 {root}/city.toml"], id="a-guess"),
        pytest.param(["- x {root}/city.toml"], id="an-absent-file-that-ends-like-it"),
        pytest.param(["-  {root}/city.toml"], id="a-second-blank"),
        pytest.param(["- \0 {root}/city.toml"], id="an-impossible-path"),
        pytest.param(["- {root}/x/ {root}/city.toml"], id="a-longer-path"),
        pytest.param(["-", " {root}/city.toml"], id="split-over-lines"),
    ],
)
def test_a_forged_answer_is_not_believed(root: Path, kept: Path, stamps: list[str]) -> None:
    kept.write_bytes(forged([one.format(root=root) for one in stamps]))
    assert recall(str(root), SHAPE, "variant") is None


@pytest.mark.parametrize(
    "sizes",
    [
        b"99999999999999999999 0 0 0",
        b"9" * 5000 + b" 0 0 0",
        b"-1 7 0 0",
        b"6 0 0",
        b"",
        b"a b c d",
        b"6 0 0 " + b"9" * 5000,
        b"\xd9\xa6 0 0 0",
        b"6 0 7 0",
    ],
    ids=["huge", "endless", "negative", "three", "none", "letters", "checksum", "digits", "code"],
)
def test_impossible_sizes_are_not_believed(root: Path, kept: Path, sizes: bytes) -> None:
    head = kept.read_bytes().partition(b"\n\n")[0]
    kept.write_bytes(head + b"\n\n" + sizes + b"\nowned\n")
    assert recall(str(root), SHAPE, "variant") is None


def test_a_link_in_place_of_the_file_is_not_followed(root: Path, kept: Path) -> None:
    kept.rename(root / "elsewhere")
    kept.symlink_to(root / "elsewhere")
    assert recall(str(root), SHAPE, "variant") is None


def test_a_named_pipe_in_place_of_the_file_is_not_waited_for(root: Path, kept: Path) -> None:
    kept.unlink()
    os.mkfifo(kept)
    assert recall(str(root), SHAPE, "variant") is None


def test_a_directory_in_place_of_the_file_is_no_answer(root: Path, kept: Path) -> None:
    kept.unlink()
    kept.mkdir()
    with suppress(OSError):  # whoever asks takes that for no answer
        assert recall(str(root), SHAPE, "variant") is None


# --- places that cannot be written -----------------------------------------------------------


@pytest.mark.parametrize("name", [".gc", ".gc/cache"])
def test_a_file_in_place_of_a_directory_means_that_nothing_is_kept(root: Path, name: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("mine\n")
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(OUT, ERR), NOW)
    assert (root / name).read_text() == "mine\n"
    assert recall(str(root), SHAPE, "variant") is None


@pytest.mark.parametrize("name", [".gc", ".gc/cache"])
def test_nothing_is_written_through_a_linked_directory(
    root: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(outside)
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(OUT, ERR), NOW)
    assert list(outside.iterdir()) == []


def test_a_kept_file_is_replaced_whole_and_no_scratch_is_left(root: Path, kept: Path) -> None:
    with kept.open("rb") as old:
        store(str(root), SHAPE, "variant", seen(root), CommandOutput(b"new\n", b""), NOW)
        assert given(recall(str(root), SHAPE, "variant")) == (b"new\n", b"", 0)
        assert OUT in old.read()
    assert [path.name for path in kept.parent.iterdir()] == [SHAPE]


def test_a_link_at_the_place_of_the_file_is_replaced_not_followed(root: Path, kept: Path) -> None:
    mine = root / "mine"
    mine.write_text("mine\n")
    kept.unlink()
    kept.symlink_to(mine)
    store(str(root), SHAPE, "variant", seen(root), CommandOutput(OUT, ERR), NOW)
    assert mine.read_text() == "mine\n"
    assert given(recall(str(root), SHAPE, "variant")) == (OUT, ERR, 0)


def test_the_state_directory_keeps_itself_out_of_git(root: Path, kept: Path) -> None:
    del kept
    assert (root / ".gc/.gitignore").read_text() == "*\n"


# --- what is asked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("agent",),
        ("agent", "list", "--help"),
        ("agent", "list", "x"),
        ("agent", "show", "mayor"),
        ("--json", "agent", "list"),
        ("skill", "list", "--agent", "mayor"),
        ("--city", ".", "agent", "list"),
    ],
    ids=lambda words: " ".join(words) or "nothing",
)
def test_only_exact_shapes_are_answered(arguments: tuple[str, ...]) -> None:
    assert answer(arguments, {}) is None


@pytest.fixture
def here(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(root)
    return root


def test_no_shape_is_answered_while_the_shell_completes(here: Path) -> None:
    environ = {"_CITY_COMPLETE": "bash_complete"}
    store(str(here), SHAPE, variant({}), seen(here), CommandOutput(OUT, ERR), NOW)
    assert answer(("agent", "list"), environ) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"COLUMNS": "80"}, {"COLUMNS": "81"}),
        ({"HOME": "/a"}, {"HOME": "/b"}),
        ({"XDG_CONFIG_HOME": "/a"}, {"XDG_CONFIG_HOME": "/b"}),
        ({"XDG_CACHE_HOME": "/a"}, {"XDG_CACHE_HOME": "/b"}),
        ({"NO_COLOR": "1"}, {}),
        ({"TERM": "dumb"}, {"TERM": "xterm"}),
        ({"HOME": "/a\nb"}, {"HOME": "/a"}),
        ({"HOME": "a", "XDG_CONFIG_HOME": ""}, {"HOME": "", "XDG_CONFIG_HOME": "a"}),
    ],
    ids=["width", "home", "config-home", "cache-home", "no-color", "term", "newline", "swapped"],
)
def test_what_an_answer_depends_on_makes_a_variant(
    one: dict[str, str], other: dict[str, str]
) -> None:
    assert variant(one) != variant(other)
    assert "\n" not in variant(one)
