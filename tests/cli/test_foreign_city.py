"""A city that belongs to another user is used only if the caller names or trusts it."""

import os
from pathlib import Path

import pytest

from tests.support.command import Command

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def foreign(harbour: Path) -> Path:
    os.chown(harbour / "city.toml", 4321, -1)
    return harbour


@pytest.mark.parametrize(
    "command", [("agent", "list"), ("check", "--json"), ("sling", "clerk", "Hello."), ("apply",)]
)
def test_commands_refuse_it_and_write_nothing(
    program: Command, foreign: Path, command: tuple[str, ...]
) -> None:
    refused = program(*command, cwd=foreign / "agents")
    assert refused.code == 1
    assert "[foreign-city]" in refused.err or '"foreign-city"' in refused.out
    assert not (foreign / ".gc").exists()


def test_a_cached_answer_is_not_printed_for_it(program: Command, harbour: Path) -> None:
    assert program("agent", "list", cwd=harbour).code == 0
    os.chown(harbour / "city.toml", 4321, -1)
    refused = program("agent", "list", cwd=harbour)
    assert (refused.code, refused.out) == (1, "")


def test_naming_it_is_enough(program: Command, foreign: Path) -> None:
    assert program("--city", str(foreign), "agent", "list", cwd=foreign).code == 0
    assert program("agent", "list", cwd=foreign, env={"CITY_ROOT": str(foreign)}).code == 0


def test_a_safe_city_is_used(program: Command, foreign: Path, private_home: Path) -> None:
    config = Path(os.environ.get("XDG_CONFIG_HOME", private_home / ".config")) / "gascity"
    config.mkdir(parents=True)
    settings = config / "config.toml"
    settings.write_text(f'safe_cities = ["{foreign}"]\n')
    assert program("agent", "list", cwd=foreign).code == 0
    os.chown(settings, 4321, -1)
    assert program("agent", "list", cwd=foreign).code == 1


def test_wrong_user_settings_are_reported(
    program: Command, foreign: Path, private_home: Path
) -> None:
    config = Path(os.environ.get("XDG_CONFIG_HOME", private_home / ".config")) / "gascity"
    config.mkdir(parents=True)
    for text, code in {"safe_cities = 1\n": "bad-type", "safe_cities =\n": "bad-toml"}.items():
        (config / "config.toml").write_text(text)
        refused = program("agent", "list", cwd=foreign)
        assert refused.code == 1
        assert f"{config}/config.toml:1:" in refused.err
        assert f"[{code}]" in refused.err
