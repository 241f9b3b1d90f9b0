"""Finding a city: named, in the environment, above, or through one of its rigs."""

import os
import stat
from pathlib import Path

import pytest

from gascity.paths import (
    ForeignCityError,
    cache_home,
    config_home,
    find_root,
    known_rigs,
    make_state,
    rig_register,
    rig_root,
    state_home,
    which,
)


@pytest.fixture
def city(tmp_path: Path) -> Path:
    root = tmp_path / "city"
    (root / "agents/mayor").mkdir(parents=True)
    (root / "city.toml").write_text("")
    return root


def register(environ: dict[str, str], *pairs: tuple[Path, Path]) -> None:
    path = Path(rig_register(environ))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{rig}\t{root}\n" for rig, root in pairs))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_city_is_found_from_below(city: Path, environ: dict[str, str]) -> None:
    assert find_root(str(city), environ) == str(city)
    assert find_root(str(city / "agents/mayor"), environ) == str(city)


def test_the_nearest_city_wins(city: Path, environ: dict[str, str]) -> None:
    inner = city / "agents/mayor"
    (inner / "city.toml").write_text("")
    assert find_root(str(inner), environ) == str(inner)


def test_nothing_above_is_no_city(tmp_path: Path, environ: dict[str, str]) -> None:
    assert find_root(str(tmp_path), environ) is None
    assert find_root("/", environ) is None


def test_the_named_city_wins_over_the_environment_and_both_over_the_place(
    city: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    environ["CITY_ROOT"] = "/from/environment"
    assert find_root(str(city), environ) == "/from/environment"
    assert find_root(str(city), environ, "../named/.") == str(tmp_path / "named")
    assert find_root(str(city), environ, "/named") == "/named"


def test_an_empty_city_root_is_none(city: Path, environ: dict[str, str]) -> None:
    assert find_root(str(city), {**environ, "CITY_ROOT": ""}) == str(city)


def test_a_city_is_found_from_inside_its_rig(
    city: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    register(environ, (tmp_path / "rig", city))
    assert find_root(str(tmp_path / "rig"), environ) == str(city)
    assert find_root(str(tmp_path / "rig/deep/inside"), environ) == str(city)
    assert find_root(str(tmp_path / "rigging"), environ) is None


def test_the_innermost_rig_wins(city: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "city.toml").write_text("")
    outer, inner = tmp_path / "rig", tmp_path / "rig/inner"
    for pairs in ([(outer, city), (inner, other)], [(inner, other), (outer, city)]):
        register(environ, *pairs)
        assert rig_root(str(inner / "src"), environ) == str(other)
        assert rig_root(str(outer / "src"), environ) == str(city)


def test_a_city_that_is_gone_is_passed_over(
    city: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    register(environ, (tmp_path / "rig/inner", tmp_path / "gone"), (tmp_path / "rig", city))
    assert rig_root(str(tmp_path / "rig/inner"), environ) == str(city)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n\n\n",
        b"one\n",
        b"a\tb\tc\n",
        b"\xff\xfe\t/x\n",
        b"\0\t\0\n",
        b"\t\n",
        b"/rig\tno-newline",
    ],
    ids=["empty", "blank", "one-word", "three-words", "bytes", "nul", "tab", "no-newline"],
)
def test_a_damaged_register_is_read_as_far_as_it_goes(
    tmp_path: Path, environ: dict[str, str], text: bytes
) -> None:
    path = Path(rig_register(environ))
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    assert isinstance(known_rigs(environ), list)
    assert find_root(str(tmp_path), environ) is None


def test_an_empty_line_in_the_register_makes_no_rig_of_everything(
    city: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    path = Path(rig_register(environ))
    path.parent.mkdir(parents=True)
    path.write_text(f"\t{city}\n")
    assert find_root(str(tmp_path), environ) is None


def test_a_directory_in_place_of_the_register_is_no_register(environ: dict[str, str]) -> None:
    Path(rig_register(environ)).mkdir(parents=True)
    assert known_rigs(environ) == []


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/ann"}, "/state"),
        ({"XDG_STATE_HOME": "", "HOME": "/home/ann"}, "/home/ann/.local/state"),
        ({"HOME": "/home/ann"}, "/home/ann/.local/state"),
        ({}, "/.local/state"),
        ({"XDG_STATE_HOME": "state", "HOME": "/home/ann"}, "/home/ann/.local/state"),
    ],
    ids=["xdg", "empty-xdg", "home", "nothing", "relative-xdg"],
)
def test_state_is_where_the_person_keeps_it(environ: dict[str, str], home: str) -> None:
    assert state_home(environ) == home


def test_a_relative_directory_is_none_for_the_cache_and_the_settings_either() -> None:
    environ = {"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "./config", "HOME": "/home/ann"}
    assert cache_home(environ) == "/home/ann/.cache"
    assert config_home(environ) == "/home/ann/.config"


def test_a_program_is_looked_for_on_the_path_it_was_given(tmp_path: Path) -> None:
    environ = {"PATH": f"/nowhere:{tmp_path}"}
    (tmp_path / "abacus").write_text("#!/bin/sh\n")
    assert which("abacus", environ) is None
    (tmp_path / "abacus").chmod(0o755)
    assert which("abacus", environ) == f"{tmp_path}/abacus"
    assert which(f"{tmp_path}/abacus", {}) == f"{tmp_path}/abacus"
    assert which("", environ) is None


def test_a_program_with_a_slash_is_relative_to_the_directory(tmp_path: Path) -> None:
    (tmp_path / "tools/sub").mkdir(parents=True)
    (tmp_path / "tools/abacus").write_text("#!/bin/sh\n")
    (tmp_path / "tools/abacus").chmod(0o755)
    assert which("./tools/abacus", {}, str(tmp_path)) == f"{tmp_path}/./tools/abacus"
    assert which("tools/sub", {}, str(tmp_path)) is None
    assert which("abacus", {"PATH": ""}, f"{tmp_path}/tools") == f"{tmp_path}/tools/abacus"


@pytest.fixture
def other_user(monkeypatch: pytest.MonkeyPatch) -> int:
    """A user who is not the caller. Root gives files away; another caller pretends to be one."""
    if os.geteuid() != 0:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        return os.getuid()
    return 4321


def give(path: Path, user: int) -> None:
    if os.getuid() == 0:
        os.chown(path, user, -1, follow_symlinks=False)


@pytest.mark.parametrize("which_path", ["city.toml", "."])
def test_a_city_of_another_user_is_refused(
    city: Path, environ: dict[str, str], other_user: int, which_path: str
) -> None:
    give(city / which_path, other_user)
    with pytest.raises(ForeignCityError) as refused:
        find_root(str(city / "agents/mayor"), environ)
    assert (refused.value.root, refused.value.owner) == (str(city), other_user)


def test_a_link_of_another_user_to_a_city_file_is_refused(
    city: Path, environ: dict[str, str], other_user: int, tmp_path: Path
) -> None:
    place = tmp_path / "open"
    place.mkdir()
    (place / "city.toml").symlink_to(city / "city.toml")
    give(place / "city.toml", other_user)
    with pytest.raises(ForeignCityError):
        find_root(str(place), environ)


def test_a_city_that_is_named_may_belong_to_another_user(
    city: Path, environ: dict[str, str], other_user: int
) -> None:
    give(city, other_user)
    assert find_root("/", environ, str(city)) == str(city)
    assert find_root("/", {**environ, "CITY_ROOT": str(city)}) == str(city)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_under_sudo_the_city_of_the_calling_user_is_trusted(
    city: Path, environ: dict[str, str]
) -> None:
    give(city, 4321)
    assert find_root(str(city), {**environ, "SUDO_UID": "4321"}) == str(city)
    with pytest.raises(ForeignCityError):
        find_root(str(city), {**environ, "SUDO_UID": "4322"})


def test_the_state_directory_is_closed_to_others(city: Path) -> None:
    previous = os.umask(0)
    try:
        make_state(str(city))
        assert stat.S_IMODE((city / ".gc").stat().st_mode) == 0o700
        (city / ".gc").chmod(0o755)
        make_state(str(city))
        assert stat.S_IMODE((city / ".gc").stat().st_mode) == 0o700
    finally:
        os.umask(previous)
