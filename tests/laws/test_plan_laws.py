"""Laws of plan, apply and undo, over directories and sources of any shape."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gascity.model.plan import KEEP
from gascity.model.wanted import WantedPath
from tests.support.disk_state import document, file, link
from tests.support.memory import MEMORY
from tests.support.snapshots import Picture, picture, scratch
from tests.support.workdir_bench import Bench

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f", "x/y")
MCP, SETTINGS = ".mcp.json", ".claude/settings.json"
TEXTS = (
    "{}",
    "",
    '{"mcpServers": {}}',
    '{"mcpServers":{"one":{"command":"mine"},"two":{"command":"mine"}},"z":[1, 2]}',
    '{ // mine\n  "model": "mine",\n  "env": {"A": "mine", "Z": 1}, // more\n}\n',
    '\ufeff{\r\n\t"model" : null\r\n}\r\n',
    "not JSON at all",
)

contents = st.sampled_from(("1", "2", "3"))
modes = st.sampled_from((0o644, 0o755, 0o600))
words = st.sampled_from(("opus", "haiku"))
server = st.builds(lambda word: {"command": word}, words)
plain = st.tuples(st.just("file"), contents, modes)
linked = st.tuples(st.just("link"), contents, st.just(0))
shared_settings = st.dictionaries(st.sampled_from(("model", "theme")), words) | st.builds(
    lambda env: {"env": env}, st.dictionaries(st.sampled_from(("A", "B")), words, min_size=1)
)
sources = st.tuples(
    st.dictionaries(st.sampled_from(NAMES), plain | linked, max_size=5),
    st.dictionaries(st.sampled_from(("one", "three")), server, max_size=2),
    shared_settings,
)
Source = tuple[
    Mapping[str, tuple[str, str, int]], Mapping[str, Mapping[str, object]], Mapping[str, object]
]
persons = st.tuples(
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from(("file", "link", "folder", "pipe")), max_size=4
    ),
    st.sampled_from((None, *TEXTS)),
    st.sampled_from((None, *TEXTS)),
    modes,
)
Person = tuple[Mapping[str, str], str | None, str | None, int]


def wanted(source: Source) -> list[WantedPath]:
    """What a source asks for; where a file and a directory have one name, the directory stays."""
    files, servers, shared = source
    found = []
    for path, (kind, text, mode) in sorted(files.items()):
        if not any(other.startswith(f"{path}/") for other in files):
            found.append(file(path, text, mode=mode) if kind == "file" else link(path, f"/{text}"))
    if servers:
        found.append(document(MCP, servers=servers))
    if shared:
        found.append(document(SETTINGS, shared))
    return found


def write_user_files(root: Path, person: Person) -> None:
    """Put a person's things into a directory, as far as they go together."""
    things, mcp, shared, mode = person
    root.mkdir(parents=True, exist_ok=True)
    for path, kind in sorted(things.items()):
        write(root / path, kind, f"mine at {path}", mode)
    for name, text in ((MCP, mcp), (SETTINGS, shared)):
        if text is not None:
            write(root / name, "file", text, mode)


def write(path: Path, kind: str, text: str, mode: int) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to("/mine")
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            with path.open("xb") as stream:
                stream.write(text.encode())
            path.chmod(mode)
    except OSError:  # something else is there already
        return False
    return True


@contextmanager
def bench() -> Iterator[Bench]:
    """In memory where that can be: fsync is not what these laws are about."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        yield Bench(Path(home))


def apply(one: Bench, source: Source, *, force: bool = False) -> None:
    """Twice, as the command does where something of ours had to make way first."""
    for _ in range(2):
        one.apply(*wanted(source), force=force)


def undo_all(one: Bench, down_to: int = 0) -> None:
    while len(list(one.home.glob(".gc/undo/*/*"))) > down_to:
        assert one.undo() is not None


many = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])


@many
@given(persons, st.lists(sources, min_size=1, max_size=3), st.booleans())
def test_after_an_apply_nothing_is_left_to_do(
    person: Person, steps: Sequence[Source], force: bool
) -> None:
    with bench() as one:
        write_user_files(one.root, person)
        for source in steps:
            apply(one, source, force=force)
            assert [step for step in one.plan(*wanted(source)).steps if step.op != KEEP] == []
            before = picture(one.root)
            apply(one, source)
            assert picture(one.root) == before
        assert scratch(one.home) == []


@many
@given(persons, st.lists(sources, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_undo_gives_back_every_byte_mode_and_link(
    person: Person, steps: Sequence[Source], force: bool, there: bool
) -> None:
    with bench() as one:
        if there:
            write_user_files(one.root, person)
        seen: list[tuple[int, Picture]] = []
        for source in steps:
            seen.append((len(list(one.home.glob(".gc/undo/*/*"))), picture(one.root)))
            apply(one, source, force=force)
        for records, before in reversed(seen):
            undo_all(one, records)
            assert picture(one.root) == before
        assert one.root.exists() == there
        assert one.ledger.paths == {}
        assert one.ledger.directories == ()


@many
@given(persons, st.lists(sources, min_size=1, max_size=4))
def test_without_sources_a_directory_is_as_it_was_before_the_first_apply(
    person: Person, steps: Sequence[Source]
) -> None:
    with bench() as one:
        write_user_files(one.root, person)
        before = picture(one.root)
        for source in steps:
            apply(one, source)
        apply(one, ({}, {}, {}))
        assert picture(one.root) == before
        assert one.ledger.paths == {}
        assert one.ledger.directories == ()


deeds = st.one_of(
    st.tuples(st.just("apply"), sources),
    st.tuples(st.just("undo"), st.none()),
    st.tuples(st.just("edit"), st.sampled_from(NAMES)),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("file"), st.sampled_from(NAMES)),
    st.tuples(st.just("link"), st.sampled_from(NAMES)),
    st.tuples(st.just("folder"), st.sampled_from(NAMES)),
)


@many
@given(persons, st.lists(deeds, max_size=12))
def test_user_files_are_never_changed(person: Person, doings: Sequence[tuple[str, object]]) -> None:
    """Whatever is applied, undone, edited and removed, in whatever order, without force."""
    with bench() as one:
        write_user_files(one.root, (person[0], None, None, person[3]))
        theirs = {p: v for p, v in picture(one.root).items() if v[0] != "directory"}
        for number, (deed, detail) in enumerate(doings):
            if deed == "apply":
                apply(one, detail)  # type: ignore[arg-type]
            elif deed == "undo":
                one.undo()
            else:
                _meddle(one.root, deed, str(detail), number, theirs)
            now = picture(one.root)
            assert {path: now.get(path) for path in theirs} == theirs


def _meddle(root: Path, deed: str, name: str, number: int, theirs: Picture) -> None:
    """A person does something by hand, and it is theirs from then on."""
    path = root / name
    if deed == "edit" and path.is_file() and not path.is_symlink():
        path.write_text(f"mine, {number}")
        theirs[name] = picture(root)[name]
    elif deed == "remove" and os.path.lexists(path):
        for gone in [one for one in theirs if one == name or one.startswith(f"{name}/")]:
            del theirs[gone]
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    elif deed in ("file", "link") and write(path, deed, f"mine, {number}", 0o600):
        theirs[name] = picture(root)[name]
    elif deed == "folder":
        write(path, "folder", "", 0)
