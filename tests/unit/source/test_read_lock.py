"""packs.lock from disk: both forms, and every fault with its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gascity.model.problems import Problem
from gascity.model.repositories import LockedPack
from gascity.source.disk import Disk
from gascity.source.lock import lock_text, read_lock
from gascity.toml.positions import locate, value_position

HUB = "https://github.com/acme/packs"
ONE, TWO = "1" * 40, "2" * 40
GOOD = f'[[pack]]\nbinding = "good"\nsource = "{HUB}"\ncommit = "{ONE}"\n'

Read = Callable[[str], tuple[tuple[LockedPack, ...], list[Problem]]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str) -> tuple[tuple[LockedPack, ...], list[Problem]]:
        (tmp_path / "packs.lock").write_text(text)
        disk = Disk(str(tmp_path))
        return read_lock(disk), disk.problems

    return read_text


def _position(text: str, problem: Problem) -> tuple[int, int]:
    place = problem.place
    assert place is not None
    assert place.file == "packs.lock"
    if place.line is not None:
        return place.line, place.col or 0
    return (value_position if place.of_value else locate)(text, place.path)


def test_without_a_lock_nothing_is_pinned_and_nothing_is_wrong(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path))
    assert read_lock(disk) == ()
    assert disk.problems == []
    assert disk.seen[f"{tmp_path}/packs.lock"] is None


def test_what_was_written_is_read(read: Read) -> None:
    locks = [
        LockedPack(
            "kennel", f"{HUB}//kennel", "kennel", "^1.2", ONE, "a" * 64, ("city", "rig:web")
        ),
        LockedPack("core", "git@github.com:acme/core.git", "", "", "b" * 64),
    ]
    assert read(lock_text(locks)) == (tuple(sorted(locks)), [])


def test_a_commit_is_known_in_small_letters(read: Read) -> None:
    locks, problems = read(f"schema = 1\n{GOOD.replace(ONE, 'ABCDE' * 8)}")
    assert ([locked.commit for locked in locks], problems) == (["abcde" * 8], [])


def test_the_public_form_is_read(read: Read) -> None:
    text = (
        "schema = 1\n"
        f'[packs."{HUB}/tree/main/kennel"]\nversion = "sha:{ONE}"\ncommit = "{ONE}"\n'
        "fetched = 2026-01-02T03:04:05Z\n"
        f'[packs."{HUB}.git//core"]\nversion = "^1.2"\ncommit = "{TWO}"\nfetched = "yesterday"\n'
    )
    assert read(text) == (
        (
            LockedPack("", f"{HUB}.git//core", "core", "^1.2", TWO),
            LockedPack("", f"{HUB}/tree/main/kennel", "kennel", f"sha:{ONE}", ONE),
        ),
        [],
    )


FAULTS = {
    "no schema": (GOOD, "missing-key", (1, 1)),
    "a schema that is text": (f'schema = "1"\n{GOOD}', "bad-type", (1, 10)),
    "a schema that is true": (f"schema = true\n{GOOD}", "bad-type", (1, 10)),
    "a schema of old": (f"schema = 0\n{GOOD}", "bad-value", (1, 10)),
    "a schema to come": (f"schema = 2\n{GOOD}", "lock-too-new", (1, 10)),
    "a merge that was not finished": (
        f"schema = 1\n<<<<<<< ours\n{GOOD}=======\n>>>>>>> theirs\n",
        "bad-toml",
        (2, 1),
    ),
    "packs that are no list": ("schema = 1\npack = 3\n", "bad-type", (2, 8)),
    "a pack that is no table": ("schema = 1\npack = [3]\n", "bad-type", (2, 9)),
    "public packs that are no table": ("schema = 1\npacks = []\n", "bad-type", (2, 9)),
    "a public pack that is no table": ("schema = 1\n[packs]\na = 3\n", "bad-type", (3, 5)),
    "an unknown table": (f"schema = 1\n{GOOD}[pakcs]\n", "unknown-key", (6, 1)),
    "an unknown key": (f"schema = 1\n{GOOD}colour = 3\n", "unknown-key", (6, 1)),
    "an unknown public key": (
        f'schema = 1\n[packs."{HUB}"]\ncommit = "{ONE}"\nparents = []\n',
        "unknown-key",
        (4, 1),
    ),
    "no commit": (f'schema = 1\n[[pack]]\nbinding = ""\nsource = "{HUB}"\n', "missing-key", (2, 1)),
    "no public commit": (f'schema = 1\n[packs."{HUB}"]\n', "missing-key", (2, 1)),
    "no binding": (
        f'schema = 1\n[[pack]]\nsource = "{HUB}"\ncommit = "{ONE}"\n',
        "missing-key",
        (2, 1),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_a_problem_with_its_place(read: Read, name: str) -> None:
    text, code, position = FAULTS[name]
    _, problems = read(text)
    assert [problem.code for problem in problems] == [code]
    assert _position(text, problems[0]) == position
    assert problems[0].is_error


@pytest.mark.parametrize(
    ("line", "code"),
    [
        *(("binding = 3", "bad-type"), ("source = 3", "bad-type"), ("path = 3", "bad-type")),
        *(("version = 3", "bad-type"), ("commit = 3", "bad-type"), ("sha256 = 3", "bad-type")),
        *(("parents = 3", "bad-type"), ("parents = [3]", "bad-type"), ('parents = ""', "bad-type")),
        *((f'commit = "{ONE[1:]}"', "bad-value"), (f'commit = "{ONE[1:]}x"', "bad-value")),
        *(('commit = "abc1234"', "bad-value"), ('commit = ""', "bad-value")),
        *(('commit = "--upload-pack=x"', "bad-value"), (f'sha256 = "{ONE}"', "bad-value")),
        *(('source = "http://a/b"', "url-scheme"), ('source = "packs/a"', "url-scheme")),
        *(('source = "https://ann:pw@a/b"', "url-credentials"), ('source = "-a"', "url-unsafe")),
        *(
            ('path = "../a"', "url-unsafe"),
            ('path = "/a"', "url-unsafe"),
            ('path = "-a"', "url-unsafe"),
        ),
    ],
)
def test_an_invalid_entry_is_left_out_and_the_others_are_read(
    read: Read, line: str, code: str
) -> None:
    key = line.partition(" ")[0]
    right = {"binding": '"bad"', "source": f'"{HUB}//x"', "commit": f'"{TWO}"', "path": '"x"'}
    rest = "".join(f"{name} = {value}\n" for name, value in right.items() if name != key)
    text = f"schema = 1\n[[pack]]\n{line}\n{rest}{GOOD}"
    locks, problems = read(text)
    assert locks == (LockedPack("good", HUB, "", "", ONE),)
    assert [problem.code for problem in problems] == [code]
    assert _position(text, problems[0]) == (3, len(key) + 4)
    assert "pw" not in problems[0].message


def test_a_public_source_that_is_not_followed_is_left_out_and_not_repeated(read: Read) -> None:
    text = f'schema = 1\n[packs."https://ann:hunter2@a/b"]\ncommit = "{ONE}"\n'
    locks, problems = read(text)
    assert locks == ()
    assert [problem.code for problem in problems] == ["url-credentials"]
    assert _position(text, problems[0]) == (2, 1)
    for text in ("[packs]\n", ""):
        _, (problem,) = read(f'schema = 1\n{text}"https://ann:hunter2@a/b" = 3\n')
        assert "hunter2" not in problem.message


def test_an_unknown_key_does_not_unpin_a_pack(read: Read) -> None:
    locks, problems = read(f"schema = 1\n{GOOD}colour = 3\n")
    assert [locked.binding for locked in locks] == ["good"]
    assert len(problems) == 1


def test_a_pack_that_a_merge_left_pinned_twice_is_a_problem(read: Read) -> None:
    text = f"schema = 1\n{GOOD}{GOOD.replace(ONE, TWO)}"
    locks, problems = read(text)
    assert [locked.commit for locked in locks] == [ONE]
    assert [problem.code for problem in problems] == ["duplicate-name"]
    assert _position(text, problems[0]) == (6, 1)


def test_a_lock_of_a_later_schema_is_not_guessed_at(read: Read) -> None:
    assert read(f"schema = 2\n{GOOD}")[0] == ()


def test_a_directory_in_the_place_of_the_lock_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "packs.lock").mkdir()
    disk = Disk(str(tmp_path))
    assert read_lock(disk) == ()
    assert [problem.code for problem in disk.problems] == ["not-a-file"]
