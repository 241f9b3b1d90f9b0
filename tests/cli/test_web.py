"""`city web` before it serves: the extra, tokens, addresses, and who may start it."""

import importlib.util
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kept import Kept, kept
from tests.support.command import Ran

__all__ = ["kept"]
In = Callable[..., Ran]


def test_a_missing_extra_is_one_line_with_the_install_command(
    in_harbour: In, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def missing(name: str, *more: Any) -> Any:
        return None if name == "uvicorn" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", missing)
    ran = in_harbour("web", "--no-open")
    assert ran.code == 1
    assert "not installed: uvicorn [missing-extra]" in ran.err
    assert "pip install 'gascity[web]'" in ran.err


def test_another_address_needs_a_token(in_harbour: In) -> None:
    ran = in_harbour("web", "--no-open", "--host", "0.0.0.0")
    assert ran.code == 1
    assert "[no-token]" in ran.err
    assert "--token-file FILE, or set CITY_WEB_TOKEN" in ran.err


def test_a_short_token_is_refused(in_harbour: In) -> None:
    for token in ("short", "ü" * 40):
        ran = in_harbour("web", "--host", "0.0.0.0", env={"CITY_WEB_TOKEN": token})
        assert "[weak-token]" in ran.err
        assert token not in ran.err


def test_a_token_file_that_others_can_read_is_refused(in_harbour: In, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("correct-horse-battery-staple\n")
    file.chmod(0o644)
    ran = in_harbour("web", "--host", "0.0.0.0", "--token-file", str(file))
    assert "[token-not-private]" in ran.err
    assert f"chmod 600 {file}" in ran.err
    ran = in_harbour("web", "--host", "0.0.0.0", "--token-file", str(tmp_path / "nothing"))
    assert ran.code == 1
    assert "No such file" in ran.err


def test_a_port_in_use_is_reported(in_harbour: In) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = in_harbour("web", "--no-open", "--port", port)
    assert ran.code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in ran.err
    assert "[cannot-listen]" in ran.err
    assert "[cannot-listen]" in in_harbour("web", "--host", "300.0.0.1", env=TOKEN).err


TOKEN = {"CITY_WEB_TOKEN": "correct-horse-battery-staple"}


def test_a_session_may_not_start_the_page_whatever_it_is_allowed(kept: Kept) -> None:
    (kept.root / "agents/mayor/agent.toml").write_text('[capabilities]\nallow = ["city.admin"]\n')
    ran = kept("web", "--no-open", as_=kept.session())
    assert ran.code == 1
    assert "[not-from-a-session]" in ran.err


def test_a_directory_without_a_city_is_reported(run: In, tmp_path: Path) -> None:
    assert "[no-city]" in run("web", "--no-open", cwd=tmp_path).err
