"""packs.lock as text, and which of its entries an import means."""

from gascity.model.repositories import LockedPack, parse_remote
from gascity.source.lock import find, lock_text

HUB = "https://github.com/acme/packs"
ONE, TWO = "1" * 40, "2" * 40


def test_a_lock_reads_as_a_list_of_packs() -> None:
    kennel = LockedPack(
        "kennel", f"{HUB}//kennel", "kennel", "^1.2.0", ONE, "a" * 64, ("rig:web", "city")
    )
    core = LockedPack("core", HUB, "", "", TWO)
    assert lock_text([kennel, core]) == (
        "# The commit and content of every imported pack."
        " Made by `city pack`; commit it, do not edit it.\n"
        "schema = 1\n"
        "\n"
        "[[pack]]\n"
        'binding = "core"\n'
        'source = "https://github.com/acme/packs"\n'
        'path = ""\n'
        'version = ""\n'
        f'commit = "{TWO}"\n'
        "parents = []\n"
        "\n"
        "[[pack]]\n"
        'binding = "kennel"\n'
        'source = "https://github.com/acme/packs//kennel"\n'
        'path = "kennel"\n'
        'version = "^1.2.0"\n'
        f'commit = "{ONE}"\n'
        f'sha256 = "{"a" * 64}"\n'
        'parents = ["city", "rig:web"]\n'
    )


def test_the_lock_of_nothing_is_a_lock() -> None:
    assert lock_text([]).endswith("schema = 1\n")


def _find(
    locks: list[LockedPack], source: str, version: str, binding: str = "kennel"
) -> LockedPack | None:
    return find(locks, binding, parse_remote(source), version)


def test_an_import_is_pinned_by_repository_directory_and_version() -> None:
    locks = [
        LockedPack("kennel", f"{HUB}//kennel", "kennel", "^1", ONE),
        LockedPack("kennel", f"{HUB}//kennel", "kennel", "^2", TWO),
        LockedPack("kennel", f"{HUB}//cattery", "cattery", "^1", TWO),
    ]
    assert _find(locks, f"{HUB}.git//kennel", "^1") == locks[0]
    assert _find(locks, "github.com/acme/packs//kennel", "^2") == locks[1]
    assert _find(locks, f"{HUB}//cattery", "^1", "other") == locks[2]
    assert _find(locks, f"{HUB}//kennel", "^3") is None
    assert _find(locks, f"{HUB}//kennel", "") is None
    assert _find(locks, HUB, "^1") is None
    assert _find(locks, "https://github.com/acme/others//kennel", "^1") is None


def test_the_binding_decides_between_two_pins_of_one_version() -> None:
    locks = [
        LockedPack("old", HUB, "", "branch:main", ONE),
        LockedPack("new", HUB, "", "branch:main", TWO),
    ]
    assert _find(locks, HUB, "branch:main", "old") == locks[0]
    assert _find(locks, HUB, "branch:main", "new") == locks[1]
    assert _find(locks, HUB, "branch:main", "third") is None
    same = [lock._replace(commit=ONE) for lock in locks]
    assert _find(same, HUB, "branch:main", "third") == same[0]


def test_an_entry_without_a_binding_is_found_by_its_source() -> None:
    locks = [LockedPack("", f"{HUB}/tree/main/kennel", "kennel", f"sha:{ONE}", ONE)]
    assert _find(locks, f"{HUB}//kennel", f"sha:{ONE}") == locks[0]
    assert _find(locks, f"{HUB}/tree/main/kennel", "") is None


def test_the_ref_of_an_address_counts_where_there_is_no_version() -> None:
    unversioned = [LockedPack("kennel", f"{HUB}/tree/main/kennel", "kennel", "", ONE)]
    assert _find(unversioned, f"{HUB}//kennel#main", "") == unversioned[0]
    assert _find(unversioned, f"{HUB}/tree/dev/kennel", "") is None
    versioned = [LockedPack("kennel", f"{HUB}/tree/main/kennel", "kennel", "^1", ONE)]
    assert _find(versioned, f"{HUB}/tree/dev/kennel", "^1") == versioned[0]


def test_an_entry_that_contradicts_the_commit_it_is_for_pins_nothing() -> None:
    locks = [
        LockedPack("kennel", HUB, "", f"sha:{ONE}", TWO),
        LockedPack("dog", HUB, "", "sha:ABCDEF1", ONE),
    ]
    assert _find(locks, HUB, f"sha:{ONE}") is None
    assert _find(locks, HUB, "sha:ABCDEF1") is None
    short = [LockedPack("dog", HUB, "", "sha:ABCDEF1", "abcdef1" + "0" * 33)]
    assert _find(short, HUB, "sha:ABCDEF1") == short[0]


def test_an_entry_whose_source_is_no_address_is_never_meant() -> None:
    assert _find([LockedPack("kennel", "../kennel", "", "^1", ONE)], HUB, "^1") is None
