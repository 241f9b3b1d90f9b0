"""Laws of addresses, versions and locks: what is pinned is what was asked for, and is harmless."""

import string
from itertools import pairwise

from hypothesis import assume, example, given
from hypothesis import strategies as st

from gascity.model.repositories import (
    LockedPack,
    Remote,
    SourceAddressError,
    canonical,
    check_path,
    is_remote,
    parse_remote,
    shown,
)
from gascity.model.versions import (
    Refs,
    Version,
    VersionError,
    VersionRequest,
    default_version,
    nearest,
    parse_version_request,
    pick,
    version_of,
)
from gascity.source.disk import Disk
from gascity.source.lock import find, lock_text, read_lock

numbers = st.integers(0, 2) | st.integers(0, 2) | st.integers(0, 10**6)
marks = st.integers(0, 12).map(str) | st.sampled_from(["rc", "alpha", "beta", "a-b", "x"])
before = st.just("") | st.lists(marks, min_size=1, max_size=3).map(lambda m: "-" + ".".join(m))
built = st.sampled_from(["", "", "+7", "+a.b"])
triples = st.builds(lambda *n: ".".join(map(str, n)), numbers, numbers, numbers)
tags = st.builds(
    lambda v, *rest: v + "".join(rest), st.sampled_from(["v", ""]), triples, before, built
)
others = st.sampled_from(["nightly", "v1", "latest", "release-1.2.3"])
commits = st.text("0123456789abcdef", min_size=40, max_size=40)
tag_maps = st.dictionaries(tags | others, commits, max_size=8)
refs = st.builds(
    Refs, commits, st.just("main"), tag_maps, st.dictionaries(others, commits, max_size=3)
)
signs = st.sampled_from(["", "=", "^", "~", ">=", "<=", ">", "<"])
partial = st.lists(numbers, min_size=1, max_size=3).map(lambda n: ".".join(map(str, n)))
some = st.builds(str.__add__, signs, partial | tags.filter(lambda tag: "+" not in tag))
ranges = some | st.lists(some, min_size=1, max_size=3).map(" ".join)


def _version(tag: str) -> Version:
    found = version_of(tag)
    assert found is not None
    return found


@given(st.lists(tags, max_size=8))
def test_versions_stand_in_one_order(found: list[str]) -> None:
    ordered = sorted(_version(tag) for tag in found)
    for a, b in pairwise(ordered):
        assert (a < b) + (a == b) == 1
        assert not b < a
    for a in ordered:
        assert [b for b in ordered if b < a] == ordered[: ordered.index(a)]


@given(tags, tags, tags)
def test_the_order_of_versions_is_transitive_and_decides(one: str, two: str, three: str) -> None:
    a, b, c = _version(one), _version(two), _version(three)
    assert (a < b) + (a == b) + (b < a) == 1
    assert not (a < b and b < c) or a < c


@given(triples, before)
def test_what_comes_before_a_release_is_lower_than_it_and_higher_than_the_last(
    release: str, pre: str
) -> None:
    assume(pre)
    version = _version(release)
    lower = version._replace(patch=version.patch - 1)
    assert lower < _version(release + pre) < version


@given(ranges, refs)
def test_a_picked_tag_is_within_the_range(version: str, found: Refs) -> None:
    picked = pick(parse_version_request(version), found)
    if picked is None:
        return
    assert picked.commit == found.tags[picked.name]
    alone = Refs("", "", {picked.name: picked.commit}, {})
    for part in version.split():
        if "-" not in picked.name:
            assert pick(parse_version_request(part), alone) == picked


@given(ranges, refs)
def test_a_pre_release_is_picked_only_if_one_of_its_release_is_named(
    version: str, found: Refs
) -> None:
    picked = pick(parse_version_request(version), found)
    if picked is not None and not _version(picked.name).is_release:
        release = picked.name.removeprefix("v").partition("-")[0]
        assert f"{release}-" in version


@given(ranges, refs, tags, commits)
def test_a_tag_outside_the_range_changes_nothing(
    version: str, found: Refs, tag: str, commit: str
) -> None:
    wanted = parse_version_request(version)
    assume(tag not in found.tags)
    assume(pick(wanted, Refs("", "", {tag: commit}, {})) is None)
    more = found._replace(tags={**found.tags, tag: commit})
    assert pick(wanted, more) == pick(wanted, found)


@given(ranges, refs)
def test_no_tag_within_the_range_is_higher_than_the_picked_one(version: str, found: Refs) -> None:
    wanted = parse_version_request(version)
    picked = pick(wanted, found)
    for tag, commit in found.tags.items():
        if pick(wanted, Refs("", "", {tag: commit}, {})) is not None:
            assert picked is not None
            assert _version(tag) <= _version(picked.name)


@given(ranges, tag_maps, st.randoms(use_true_random=False))
def test_the_order_of_tags_does_not_matter(
    version: str, found: dict[str, str], random: object
) -> None:
    shuffled = list(found.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = Refs("", "", found, {}), Refs("", "", dict(shuffled), {})
    assert pick(parse_version_request(version), one) == pick(parse_version_request(version), two)


@given(refs)
def test_the_version_that_is_written_for_an_importer_means_the_newest(found: Refs) -> None:
    asked, newest = (
        pick(parse_version_request(default_version(found)), found),
        pick(VersionRequest("newest"), found),
    )
    assert asked is not None
    assert newest is not None
    assert asked.commit == newest.commit


def _wanted(version: str, ref: str) -> VersionRequest | VersionError:
    try:
        return parse_version_request(version, ref)
    except VersionError as fault:
        return fault


@given(st.text() | st.text("v1.x*^~<>=, -+rc:tagbrnchs", max_size=12), st.text(max_size=8), refs)
def test_any_text_is_a_version_or_refused(version: str, ref: str, found: Refs) -> None:
    wanted = _wanted(version, ref)
    if isinstance(wanted, VersionError):
        assert wanted.message.isprintable()
        return
    pick(wanted, found)
    assert len(nearest(wanted, found)) <= 3
    if wanted.kind in ("tag", "branch", "ref", "sha"):
        assert wanted.text
        assert not wanted.text.startswith("-")
        assert wanted.text.isprintable()


words = st.builds(str.__add__, st.sampled_from(string.ascii_letters), st.text("ab1._-", max_size=5))
paths = st.lists(words, min_size=1, max_size=3).map("/".join)
hosts = st.sampled_from(["github.com", "GitHub.com", "git.example.org", "[2001:db8::1]", "host"])
ports = st.sampled_from(["", ":22", ":443", ":9418", ":8080"])
repositories = (
    st.builds("https://{}{}/a/{}{}".format, hosts, ports, words, st.sampled_from(["", ".git"]))
    | st.builds("ssh://{}{}{}/{}".format, st.sampled_from(["", "git@"]), hosts, ports, paths)
    | st.builds(
        "git@{}:{}{}".format, st.sampled_from(["h", "H"]), paths, st.sampled_from(["", ".git"])
    )
    | st.builds("file:///{}".format, paths)
    | st.builds("github.com/a/{}".format, words)
)
sources = st.builds(
    "{}{}{}".format,
    repositories,
    st.just("") | paths.map(lambda path: f"//{path}"),
    st.just("") | words.map(lambda ref: f"#{ref}"),
)
pieces = st.sampled_from(
    "https:// ssh:// git:// file:// file:/// http:// ext:: git@ ann:pw@ :pw@ @ : / // /// # ? %"
    " %40 %3A %2d %2e%2e %0a %2F -x -- .. . host github.com/ a/b /tree/ /blob/ /-/tree/ pack.toml"
    " .git :22 [::1] \\ \n \0 \x1b é".split(" ")
)
fuzz = st.lists(pieces | st.text(max_size=3), max_size=9).map("".join)


@given(sources)
def test_a_repository_has_one_identity_however_often_it_is_taken(source: str) -> None:
    identity = canonical(parse_remote(source).url)
    assert canonical(identity) == identity
    assert canonical(parse_remote(identity).url) == identity


@given(sources)
def test_what_was_read_of_an_address_can_be_written_as_one(source: str) -> None:
    remote = parse_remote(source)
    ref = remote.ref and f"#{remote.ref}"
    assert parse_remote(f"{remote.url}//{remote.path}{ref}") == remote
    assert shown(source) == source


def _remote(source: str) -> Remote | SourceAddressError:
    try:
        return parse_remote(source)
    except SourceAddressError as fault:
        return fault


@given(fuzz | sources.flatmap(lambda source: fuzz.map(lambda odd: source + odd)))
@example("https://host/a//b:c@d")
@example("ssh://git@host/a#-b")
def test_no_text_becomes_an_address_with_a_secret_or_an_option_in_it(source: str) -> None:
    remote = _remote(source)
    if isinstance(remote, SourceAddressError):
        assert remote.code in ("url-scheme", "url-credentials", "url-unsafe", "bad-url")
        assert "pw" not in remote.message + remote.hint
        return
    assert remote.url.startswith(("https://", "ssh://", "git://", "file:///")) or "@" in remote.url
    _check_harmless(remote)
    identity = canonical(remote.url)
    assert canonical(identity) == identity


def _check_harmless(remote: Remote) -> None:
    assert remote.url
    for text in remote:
        assert text.isprintable()
        assert "\\" not in text
        assert not any(part.startswith("-") for part in text.split("/"))
        assert "@" not in text.partition("://")[2 if "://" in text else 0].partition(":")[2]
    user, at, host = remote.url.partition("://")[2].partition("/")[0].rpartition("@")
    assert not host.startswith("-")
    assert not at or (remote.url.startswith("ssh://") and user and ":" not in user)
    assert " " not in remote.url
    assert "?" not in remote.url
    assert ".." not in remote.path.split("/")
    assert check_path(remote.path) == remote.path


@given(
    st.text(max_size=9),
    st.sampled_from(["https://", "ssh://", "http://", "ext::", "", "//", "a b"]),
)
def test_what_is_shown_of_an_address_has_no_password_in_it(password: str, start: str) -> None:
    secret = f"hunter2{password}"
    assert "hunter2" not in shown(f"{start}ann:{secret}@host/a")
    assert "hunter2" not in shown(f"https://host/a//{start}ann:{secret}@host/a")


@given(fuzz)
def test_an_address_is_never_treated_as_a_directory(source: str) -> None:
    if isinstance(_remote(source), Remote):
        assert is_remote(source)


texts = st.text(max_size=8)
locks = st.lists(
    st.builds(
        LockedPack,
        texts,
        sources,
        st.just("") | paths,
        texts,
        commits,
        st.just("") | st.text("0123456789abcdef", min_size=64, max_size=64),
        st.lists(texts, max_size=3).map(lambda parents: tuple(sorted(parents))),
    ),
    max_size=5,
    unique_by=lambda locked: locked[:4],
)


def _read(text: str) -> tuple[LockedPack, ...]:
    disk = Disk("/city", {"/city/packs.lock": text.encode()})
    found = read_lock(disk)
    assert disk.problems == []
    return found


@given(locks)
def test_a_lock_that_was_written_is_read_as_it_was(found: list[LockedPack]) -> None:
    assert _read(lock_text(found)) == tuple(sorted(found))
    assert lock_text(found) == lock_text(reversed(found))
    assert lock_text(found).endswith("\n")
    assert not lock_text(found).endswith("\n\n")


@given(locks, st.text("0123456789abcdef", min_size=40, max_size=40))
def test_every_pin_is_found_by_what_was_asked(found: list[LockedPack], commit: str) -> None:
    for locked in found:
        remote = parse_remote(locked.source)._replace(path=locked.path)
        others = [one._replace(version=f"{one.version}!", commit=commit) for one in found]
        assume(not locked.version.startswith("sha"))
        assert find([*others, locked], locked.binding, remote, locked.version) == locked
