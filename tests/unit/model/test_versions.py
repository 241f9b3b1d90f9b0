"""Versions: what may be asked for, and which commit that is."""

import pytest

from gascity.model.versions import (
    Refs,
    VersionError,
    VersionMatch,
    VersionRequest,
    default_version,
    nearest,
    parse_version_request,
    pick,
    version_of,
)

HEAD = "f" * 40
DEV = "d" * 40


def _refs(*tags: str, head: str = HEAD) -> Refs:
    """A repository in which every tag names a commit of its own."""
    commits = {tag: f"{at:040x}" for at, tag in enumerate(tags)}
    return Refs(head, "main", commits, {"main": HEAD, "dev": DEV, "feature/dogs": DEV})


def _picked(version: str, *tags: str) -> str | None:
    found = pick(parse_version_request(version), _refs(*tags))
    return found.name if found else None


RELEASES = (
    "v0.2.9 v0.3.0 v0.3.4 v0.4.0 v1.0.0 v1.2.0 v1.2.3 v1.3.0 v1.10.0 v2.0.0-rc.1 v2.0.0 v3.0.0-a"
)


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        *(("1.2.3", "v1.2.3"), ("v1.2.3", "v1.2.3"), ("=1.2.3", "v1.2.3"), ("= 1.2.3", "v1.2.3")),
        *(("1.2.4", None), ("1.2.3+build", "v1.2.3")),
        *(("^1.2.3", "v1.10.0"), ("^1.2", "v1.10.0"), ("^1", "v1.10.0"), ("^ 1.x", "v1.10.0")),
        *(("^0.3", "v0.3.4"), ("^0.3.1", "v0.3.4"), ("^0", "v0.4.0"), ("^0.3.5", None)),
        *(("~1.2", "v1.2.3"), ("~1.2.1", "v1.2.3"), ("~1", "v1.10.0"), ("~1.2.4", None)),
        *((">=1.2,<2", "v1.10.0"), (">= 1.2 < 2", "v1.10.0"), (">=1.2, <2", "v1.10.0")),
        *((">1.2.3", "v2.0.0"), (">1.2 <1.10", "v1.3.0"), ("<=1.2", "v1.2.3"), ("<1.2", "v1.0.0")),
        *(("<=1.2.0", "v1.2.0"), ("<1.2.0", "v1.0.0"), (">2", None), (">=2", "v2.0.0")),
        *(("1.x", "v1.10.0"), ("1.2.*", "v1.2.3"), ("1.2.x", "v1.2.3"), ("1", "v1.10.0")),
        *(("1.X.X", "v1.10.0"), ("=1.2", "v1.2.3"), ("x", "v2.0.0"), (">=x", "v2.0.0")),
        *(("2.0.0-rc.1", "v2.0.0-rc.1"), (">=2.0.0-rc.1 <2.0.0", "v2.0.0-rc.1"), ("^3", None)),
        *((">=1 <2.0.0", "v1.10.0"), ("^3.0.0-a", "v3.0.0-a"), (">=2.0.0-rc.1", "v2.0.0")),
        *(("*", "v2.0.0"), ("", "v2.0.0"), (" ", "v2.0.0")),
    ],
)
def test_a_range_means_the_newest_tag_within_it(version: str, tag: str | None) -> None:
    assert _picked(version, *RELEASES.split()) == tag


def test_the_commit_comes_with_the_name() -> None:
    refs = _refs("v1.0.0", "v1.1.0")
    assert pick(parse_version_request("^1"), refs) == VersionMatch(refs.tags["v1.1.0"], "v1.1.0")


def test_precedence_is_that_of_semver() -> None:
    ascending = (
        "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11"
        " 1.0.0-rc.1 1.0.0 1.0.1 1.2.0 1.10.0 2.0.0"
    ).split()
    versions = [version_of(text) for text in ascending]
    assert None not in versions
    assert versions == sorted(versions, key=lambda version: version or (0,))
    assert len(set(versions)) == len(ascending)


def test_what_was_built_and_how_it_is_spelt_makes_no_other_version() -> None:
    assert len({version_of(tag) for tag in ("v1.2", "1.2.0", "v1.2.0+a", "1.2.0+a.b-c")}) == 1


@pytest.mark.parametrize("order", [("1.2.0", "v1.2.0"), ("v1.2.0", "1.2.0")])
def test_of_two_tags_for_one_version_always_the_same_is_taken(order: tuple[str, str]) -> None:
    assert _picked("^1", *order) == "v1.2.0"


@pytest.mark.parametrize(
    "tag",
    [
        *("", "v", "v1", "1", "v1.2.3.4", "v1.x", "v1.2.*", "release-1.2.3", "1.2.3-", "1.2.3+"),
        *("1.2.3-a..b", "1.2.3-ä", "vv1.2.3", "V1.2.3", "1..2", "1.2.", "-1.2", "1.2.3 ", "١.٢.٣"),
        *("1.2." + "9" * 5000, "1.2.3-" + "9" * 5000, "nightly", "²0.1.2"),
    ],
)
def test_a_tag_that_names_no_version_is_left_alone(tag: str) -> None:
    assert version_of(tag) is None
    assert _picked("*", tag, "v0.1.0") == "v0.1.0"


def test_without_a_release_the_newest_is_the_head() -> None:
    assert pick(VersionRequest("newest"), _refs("v2.0.0-rc.1", "nightly")) == VersionMatch(
        HEAD, "main"
    )
    assert pick(VersionRequest("newest"), Refs("", "", {}, {})) is None


@pytest.mark.parametrize(
    ("version", "wanted", "found"),
    [
        ("tag:v1", VersionRequest("tag", "v1"), VersionMatch("1" * 40, "v1")),
        ("tag:main", VersionRequest("tag", "main"), None),
        ("branch:main", VersionRequest("branch", "main"), VersionMatch(HEAD, "main")),
        (
            "branch:feature/dogs",
            VersionRequest("branch", "feature/dogs"),
            VersionMatch(DEV, "feature/dogs"),
        ),
        ("branch:v1", VersionRequest("branch", "v1"), None),
        (f"sha:{'A' * 40}", VersionRequest("sha", "a" * 40), VersionMatch("a" * 40, "")),
        ("sha:abc1234", VersionRequest("sha", "abc1234"), VersionMatch("abc1234", "")),
        (f"sha:{'a' * 64}", VersionRequest("sha", "a" * 64), VersionMatch("a" * 64, "")),
    ],
)
def test_a_tag_branch_or_commit_can_be_named(
    version: str, wanted: VersionRequest, found: VersionMatch | None
) -> None:
    refs = Refs(HEAD, "main", {"v1": "1" * 40}, _refs().branches)
    assert parse_version_request(version) == wanted
    assert pick(wanted, refs) == found


@pytest.mark.parametrize(
    ("ref", "found"),
    [
        ("both", VersionMatch("1" * 40, "both")),
        ("dev", VersionMatch(DEV, "dev")),
        ("c" * 40, VersionMatch("c" * 40, "")),
        ("b" * 40, VersionMatch("2" * 40, "b" * 40)),
        ("c" * 12, None),
        ("gone", None),
    ],
)
def test_a_ref_is_a_tag_before_a_branch_before_a_commit(
    ref: str, found: VersionMatch | None
) -> None:
    refs = Refs(HEAD, "main", {"both": "1" * 40, "b" * 40: "2" * 40}, {"both": HEAD, "dev": DEV})
    assert parse_version_request("", ref) == VersionRequest("ref", ref)
    assert pick(parse_version_request("", ref), refs) == found


def test_a_version_counts_more_than_the_ref_of_the_address() -> None:
    assert parse_version_request("^1", "dev") == VersionRequest("range", "^1")
    assert parse_version_request("*", "dev") == VersionRequest("newest")


@pytest.mark.parametrize(
    "name",
    [
        *("", "-x", "--upload-pack=x", "a/-b", "a..b", "..", "a@{1}", "@", "a b", "a\tb", "a\nb"),
        *(
            "a\0b",
            "a\x1b[2Jb",
            "a:b",
            "a?b",
            "a*",
            "a[b",
            "a\\b",
            "a~1",
            "a^",
            "a.lock",
            "a.lock/b",
        ),
        *("/a", "a/", "a//b", ".a", "a/.b", "a.", "a\u202eb"),
    ],
)
def test_a_name_that_git_could_take_for_more_than_a_name_is_refused(name: str) -> None:
    for asked in (f"tag:{name}", f"branch:{name}"):
        with pytest.raises(VersionError):
            parse_version_request(asked)
    if name:
        with pytest.raises(VersionError):
            parse_version_request("", name)


@pytest.mark.parametrize(
    "version",
    [
        *("sha:", "sha:abc123", "sha:xyz1234", f"sha:{'a' * 41}", "sha:HEAD", "sha:-aaaaaaa"),
        *(
            "main",
            "latest",
            "v1.2.3.4",
            "1.x.3",
            "^",
            ">=",
            ">= <2",
            "<>1",
            "==1.2.3",
            "!=1.2",
            "!1",
        ),
        *(
            "^1.2-rc.1",
            "1.x-rc.1",
            "1.2 || 2",
            "1.2 - 2.0",
            "tags:v1",
            "a:b",
            ",",
            "1.2.3-",
            "\x1b[2J",
        ),
        *("deadbeef" * 5, "^" * 5000, "1." * 5000, "1.2." + "9" * 5000, ">=1.2<2"),
    ],
)
def test_what_is_no_version_is_refused_with_a_hint(version: str) -> None:
    with pytest.raises(VersionError) as caught:
        parse_version_request(version)
    assert caught.value.message.isprintable()
    assert caught.value.hint


def test_a_commit_without_sha_prefix_gets_a_hint() -> None:
    with pytest.raises(VersionError) as caught:
        parse_version_request("deadbee")
    assert caught.value.hint == "write sha:deadbee for a commit"


@pytest.mark.parametrize(
    ("tags", "version"),
    [
        (("v1.2.3", "v1.3", "v2.0.0-rc.1"), "^1.3.0"),
        (("0.3.4",), "^0.3.4"),
        (("nightly", "v1.0.0-rc.1"), f"sha:{HEAD}"),
        ((), f"sha:{HEAD}"),
    ],
)
def test_an_importer_who_names_no_version_gets_the_newest_release(
    tags: tuple[str, ...], version: str
) -> None:
    refs = _refs(*tags)
    assert default_version(refs) == version
    asked, newest = pick(parse_version_request(version), refs), pick(VersionRequest("newest"), refs)
    assert asked is not None
    assert newest is not None
    assert asked.commit == newest.commit


def test_an_empty_repository_has_no_version_to_ask_for() -> None:
    assert default_version(_refs(head="")) == ""


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("^9", ("v2.0.0-rc.1", "v1.10.0", "v1.2.0")),
        ("tag:v1.2.1", ("v1.2.0",)),
        ("tag:release", ("v2.0.0-rc.1", "v1.10.0", "v1.2.0")),
        ("branch:feature/dog", ("feature/dogs",)),
        ("branch:trunk", ("main", "dev", "feature/dogs")),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(version: str, names: tuple[str, ...]) -> None:
    refs = _refs("v1.2.0", "v1.10.0", "v2.0.0-rc.1", "v1.0.0")
    assert pick(parse_version_request(version), refs) is None
    assert nearest(parse_version_request(version), refs) == names


def test_a_ref_is_near_tags_and_branches_alike() -> None:
    refs = Refs(HEAD, "main", {"maim": DEV}, {"main": HEAD, "other": DEV})
    assert nearest(VersionRequest("ref", "mainn"), refs) == ("main",)
    assert nearest(VersionRequest("ref", "maimm"), refs) == ("maim",)
    assert nearest(VersionRequest("ref", "nothing-like-it"), refs) == ("main", "other")
    assert nearest(VersionRequest("ref", "x"), Refs("", "", {}, {})) == ()
