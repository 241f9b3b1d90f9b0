"""Addresses of repositories: what is one, what it means, and what is refused."""

import os
import subprocess
from pathlib import Path

import pytest

from gascity.model.repositories import (
    Remote,
    SourceAddressError,
    canonical,
    check_path,
    is_remote,
    parse_remote,
    shown,
)

HUB = "https://github.com/acme/packs"


@pytest.mark.parametrize(
    ("source", "url", "path", "ref"),
    [
        (HUB, HUB, "", ""),
        (f"{HUB}.git", f"{HUB}.git", "", ""),
        (f"{HUB}/", HUB, "", ""),
        ("HTTPS://git.example.org/a/b", "https://git.example.org/a/b", "", ""),
        ("https://git.example.org:8443/a", "https://git.example.org:8443/a", "", ""),
        ("ssh://git@git.example.org:2222/a/b", "ssh://git@git.example.org:2222/a/b", "", ""),
        ("ssh://git.example.org/~ann/b.git", "ssh://git.example.org/~ann/b.git", "", ""),
        ("ssh://git@[2001:db8::1]:2222/a", "ssh://git@[2001:db8::1]:2222/a", "", ""),
        ("git://git.example.org/a", "git://git.example.org/a", "", ""),
        ("file:///srv/git/a", "file:///srv/git/a", "", ""),
        ("file:///srv/@home/a", "file:///srv/@home/a", "", ""),
        ("git@github.com:acme/packs.git", "git@github.com:acme/packs.git", "", ""),
        ("ann.b@git.example.org:packs", "ann.b@git.example.org:packs", "", ""),
        ("github.com/acme/packs", HUB, "", ""),
        ("GitHub.com/acme/packs", "https://GitHub.com/acme/packs", "", ""),
    ],
)
def test_an_address_is_given_to_git_as_it_is_written(
    source: str, url: str, path: str, ref: str
) -> None:
    assert is_remote(source)
    assert parse_remote(source) == Remote(url, path, ref)


@pytest.mark.parametrize(
    ("source", "url", "path", "ref"),
    [
        (f"{HUB}//kennel", HUB, "kennel", ""),
        (f"{HUB}.git//a/b/", f"{HUB}.git", "a/b", ""),
        (f"{HUB}//", HUB, "", ""),
        (f"{HUB}//./a/./b", HUB, "a/b", ""),
        ("file:///srv/git/a//kennel", "file:///srv/git/a", "kennel", ""),
        ("git@github.com:acme/packs.git//a", "git@github.com:acme/packs.git", "a", ""),
        ("github.com/acme/packs//a", HUB, "a", ""),
        (f"{HUB}#v2", HUB, "", "v2"),
        (f"{HUB}//kennel#feature/dogs", HUB, "kennel", "feature/dogs"),
        (f"{HUB}#kennel@1.2.0", HUB, "", "kennel@1.2.0"),
        (f"{HUB}#", HUB, "", ""),
        (f"{HUB}/tree/main", HUB, "", "main"),
        (f"{HUB}/tree/main/packs/kennel", HUB, "packs/kennel", "main"),
        (f"{HUB}/tree/main//packs", HUB, "packs", "main"),
        (f"{HUB}/tree/v1.2/packs//kennel", HUB, "packs/kennel", "v1.2"),
        (f"{HUB}/tree/feature%2Fdogs/packs", HUB, "packs", "feature/dogs"),
        ("github.com/acme/packs/tree/main/a", HUB, "a", "main"),
        (f"{HUB}/blob/main/pack.toml", HUB, "", "main"),
        (f"{HUB}/blob/main/packs/kennel/pack.toml", HUB, "packs/kennel", "main"),
        ("https://github.acme.org/a/b/tree/x/y", "https://github.acme.org/a/b", "y", "x"),
        ("https://gitlab.com/a/b/c/-/tree/x/y/z", "https://gitlab.com/a/b/c", "y/z", "x"),
        (f"{HUB}//two%20words", HUB, "two words", ""),
        (f"{HUB}//100%2525", HUB, "100%25", ""),
    ],
)
def test_a_directory_and_a_ref_may_be_part_of_an_address(
    source: str, url: str, path: str, ref: str
) -> None:
    assert is_remote(source)
    assert parse_remote(source) == Remote(url, path, ref)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (f"{HUB}.git//kennel", "https"),
        ("HTTPS://git.example.org/a", "https"),
        ("ssh://git@[2001:db8::1]:2222/a", "ssh"),
        ("ann.b@git.example.org:a:b", "ssh"),
        ("git://git.example.org/a", "git"),
        ("file:///srv/a:b", "file"),
    ],
)
def test_git_parses_an_address_as_city_does(source: str, kind: str, tmp_path: Path) -> None:
    result = subprocess.run(
        ["git", "ls-remote", "--", parse_remote(source).url],
        env={**os.environ, "GIT_ALLOW_PROTOCOL": "none"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"transport '{kind}' not allowed" in result.stderr


def test_only_where_pages_are_called_so_is_tree_more_than_a_name() -> None:
    url = "https://git.example.org/a/b/tree/main"
    assert parse_remote(url) == Remote(url)


@pytest.mark.parametrize(
    "source",
    [
        *("", ".", "..", "./a", "../a", "/srv/a", "//packs/a", "~", "~/a", "~ann/a"),
        *("packs/a", "a", ".gc/system/packs/a", "a:b/c", "c:/packs", "c:\\packs", "host:packs/a"),
        *(
            "builtin:roles",
            "packs/a@v1",
            "@acme/a",
            "github.com",
            "./git@github.com:a/b",
            "-a",
            "a-b/c",
        ),
    ],
)
def test_a_directory_is_no_address(source: str) -> None:
    assert not is_remote(source)
    assert shown(source) == source


@pytest.mark.parametrize(
    "source",
    [
        *("http://git.example.org/a", "HTTP://git.example.org/a", "ftp://git.example.org/a"),
        *("ext::sh -c true", "ext::git-upload-pack", "fd::17", "transport::https://a/b"),
        *("git+ssh://git@host/a", "javascript://a/b", "https:/git.example.org/a", "http:a"),
        *("git@host:a://b", "@host:a://b"),
    ],
)
def test_an_address_of_a_kind_that_is_not_followed_is_refused(source: str) -> None:
    assert is_remote(source)
    assert _code(source) == "url-scheme"


@pytest.mark.parametrize(
    "source",
    [
        "https://hunter2@github.com/acme/packs",
        "https://ann:hunter2@github.com/acme/packs",
        "https://:hunter2@github.com/acme/packs",
        "https://ann:@github.com/hunter2",
        "ssh://ann:hunter2@git.example.org/a",
        "git://hunter2@git.example.org/a",
        "ann:hunter2@git.example.org:a/b",
        "ann:hunter2@git.example.org/a/b",
        "https://ann/hunter2@git.example.org/a",
        "https://ann:80/hunter2@git.example.org/a",
        "https://ann/hunter2%40git.example.org/a",
        "git@ann:hunter2@git.example.org/a",
        f"{HUB}//ann:hunter2@git.example.org",
        f"{HUB}//a/ann%3Ahunter2%40git.example.org/b",
        f"{HUB}#ann:hunter2@git.example.org",
        "ssh://ann%3Ahunter2@git.example.org/a",
        "github.com/ann:hunter2@github.com/a",
    ],
)
def test_an_address_with_a_secret_in_it_is_refused_and_the_secret_not_repeated(source: str) -> None:
    assert is_remote(source)
    with pytest.raises(SourceAddressError) as caught:
        parse_remote(source)
    assert caught.value.code == "url-credentials"
    assert "hunter2" not in f"{caught.value} {caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "source",
    [
        "https://hunter2@github.com/acme/packs",
        "https://ann:hunter2@github.com/acme/packs",
        "https://ann:hun/ter2/hunter2@github.com/a",
        "https://ann:hunter2?a@github.com/a",
        "https://ann:hunter2#a@github.com/a",
        "https://ann:hunter2//b@github.com/a",
        "https://ann:hunter2%40github.com/a",
        "https://a.example.org/b https://ann:hunter2@github.com/a",
        "http://ann:hunter2@github.com/a",
        "https:/ann:hunter2@github.com/a",
        "https:ann:hunter2@github.com/a",
        "//ann:hunter2@github.com/a",
        "ext::https://ann:hunter2@github.com/a",
        "ann:hunter2@github.com::https://b@c",
        "ann:hunter2@github.com:a",
        "hunter2@github.com/a",
        "-hunter2@github.com:a",
        f"{HUB}//https://ann:hunter2@github.com/a",
        f"{HUB}?token=hunter2",
        f"{HUB}?token=hunter2#main",
        f"{HUB}//ann:hunter2@b",
        f"{HUB}#https://ann:hunter2@b",
        "\nhttps://ann:hunter2@github.com/a",
    ],
)
def test_no_secret_of_an_address_is_shown(source: str) -> None:
    assert "hunter2" not in shown(source)
    assert "…" in shown(source)


@pytest.mark.parametrize("source", [HUB, "git@github.com:a/b", "ssh://ann@h/a", f"{HUB}//@x/y#a@b"])
def test_an_address_without_secrets_is_shown_as_it_is(source: str) -> None:
    assert shown(source) == source


def test_what_is_hidden_leaves_the_rest_to_be_recognised() -> None:
    assert shown("https://ann:b@github.com/acme/packs//a") == "https://…@github.com/acme/packs//a"
    assert shown(f"{HUB}?a=b") == f"{HUB}?…"


@pytest.mark.parametrize(
    "source",
    [
        *("--upload-pack=touch@host:a", "-oProxyCommand=x@host:a", "-u://host/a"),
        *(
            "ssh://-oProxyCommand=x/a",
            "ssh://-a@host/b",
            "-a@host:b",
            "ssh://-oProxyCommand=x@host/a",
            "ssh://git@-host/a",
        ),
        *("https://host/-a/b", "git@host:-a", "git@-host:a", f"{HUB}//-a", f"{HUB}//a/-b"),
        *(f"{HUB}#-a", f"{HUB}#a/--b", f"{HUB}/tree/-a/b", f"{HUB}//%2Da", f"{HUB}//./-a"),
        *(
            f"{HUB} ",
            f" {HUB}",
            f"{HUB}//a b",
            f"{HUB}\n",
            f"{HUB}\tx",
            f"{HUB}\0",
            f"{HUB}\x1b[2J",
        ),
        *(
            f"{HUB}%0a",
            f"{HUB}%00//a",
            f"{HUB}//a%0Ab",
            f"{HUB}#a%7f",
            f"{HUB}\u202e",
            "git@h:a\nb",
        ),
        *("https:///a/b", "https://:443/a", "ssh://git@/a", "https://./a"),
        *(
            "https://ho st/a",
            "https://host%2f/a",
            "https://ho;st/a",
            "https://hóst/a",
            "https://[]/a",
        ),
        *("https://host:x/a", "https://host:443443/a", "ssh://a;b@host/c", "git@@host:a"),
        *(f"{HUB}//../a", f"{HUB}//a/..", f"{HUB}//a/../../b", f"{HUB}//%2e%2e/a", f"{HUB}//.%2E"),
        *(f"{HUB}/tree/main/../a", f"{HUB}//a%2F..%2F..%2Fb", "https://host/a/../b"),
        *(f"{HUB}///a", f"{HUB}//%2Fa", f"{HUB}//a\\b", f"{HUB}\\a", f"{HUB}//a%5cb"),
        *(
            "file://host/a",
            "file://localhost/a",
            "file://ann@/a",
            "file://:1/a",
            "file://ann@host/a",
            "file://-host/a",
        ),
        *(f"{HUB}?a", f"{HUB}//a?b", f"{HUB}#a?b"),
    ],
)
def test_an_ambiguous_address_is_refused(source: str) -> None:
    assert _code(source) == "url-unsafe"


@pytest.mark.parametrize(
    "source",
    [
        *("https://host", "https://host/", "ssh://git@host", "git@host", "git@host:", "file:///"),
        *(
            "file:////srv/a",
            "https://host//a",
            "https://github.com/acme",
            "github.com/",
        ),
        *(f"{HUB}/packs/kennel", f"{HUB}/tree", f"{HUB}/commit/abc", f"{HUB}/blob/main/README.md"),
        *("https://gitlab.com/a/b/-/merge_requests/1", f"{HUB}//a//b", f"{HUB}/tree/main/a#dev"),
    ],
)
def test_an_invalid_address_gets_a_hint(source: str) -> None:
    assert is_remote(source)
    assert _code(source) == "bad-url"


@pytest.mark.parametrize(
    "spellings",
    [
        (
            HUB,
            f"{HUB}/",
            f"{HUB}.git",
            f"{HUB}.git/",
            "HTTPS://GitHub.com/acme/packs",
            "github.com/acme/packs.git",
            "https://github.com:443/acme/packs",
        ),
        (
            "git@github.com:acme/packs",
            "git@GitHub.com:acme/packs.git",
            "git@github.com:/acme/packs",
            "ssh://git@github.com/acme/packs",
            "SSH://git@github.com:22/acme/packs.git/",
        ),
        ("git://host/a", "git://host:9418/a"),
        ("file:///srv/a", "file:///srv/a/.git", "file:///srv/a.git"),
    ],
)
def test_two_spellings_of_one_repository_have_one_identity(spellings: tuple[str, ...]) -> None:
    assert len({canonical(parse_remote(source).url) for source in spellings}) == 1
    assert len({canonical(source) for source in spellings}) == 1


def test_what_may_be_another_repository_has_another_identity() -> None:
    others = [
        HUB,
        "https://github.com/acme/Packs",
        "https://github.com:8443/acme/packs",
        "ssh://github.com/acme/packs",
        "ssh://git@github.com/acme/packs",
        "ssh://ann@github.com/acme/packs",
        "git://github.com/acme/packs",
        "file:///acme/packs",
    ]
    assert len({canonical(url) for url in others}) == len(others)


def test_a_directory_in_a_repository_has_one_spelling() -> None:
    assert [check_path(path) for path in ("", ".", "a/", "./a/./b", "a")] == [
        "",
        "",
        "a",
        "a/b",
        "a",
    ]


def _code(source: str) -> str:
    with pytest.raises(SourceAddressError) as caught:
        parse_remote(source)
    assert caught.value.message
    assert caught.value.hint
    return caught.value.code
