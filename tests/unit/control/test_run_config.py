"""`RunConfig`: agents by name, without looking at every other agent of the city."""

from pathlib import Path

import pytest

from gascity.control import run_config
from gascity.control.run_config import RunConfig
from gascity.model.layers import SettingsRecord
from gascity.model.session_context import Machine
from gascity.pipeline import open_city

MACHINE = Machine("linux", "2026-11-18")


@pytest.fixture
def city(tmp_path: Path) -> Path:
    (tmp_path / "city.toml").write_text('[workspace]\nname = "shop"\n')
    for name, more in (("cook", ""), ("waiter", 'depends_on = ["cook"]\n')):
        home = tmp_path / "agents" / name
        home.mkdir(parents=True)
        (home / "agent.toml").write_text(f'provider = "shell"\nenv = {{ A = "1" }}\n{more}')
    return tmp_path


def load(city: Path) -> RunConfig:
    environ = {"HOME": str(city), "XDG_CONFIG_HOME": str(city / ".config")}
    return RunConfig(open_city(str(city), environ), environ, MACHINE)


def test_a_qualified_name_is_found_without_resolving_it_among_all_agents(
    city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(city)
    monkeypatch.setattr(run_config, "find_agent", lambda *_: pytest.fail("looks at every agent"))
    waiter = config.agent("waiter")
    assert waiter is not None
    assert waiter.depends_on == ("cook",)


def test_unchanged_agents_are_equal_after_a_reload_without_computing_their_settings(
    city: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = load(city), load(city)
    monkeypatch.setattr(SettingsRecord, "as_dict", lambda _: pytest.fail("computes every setting"))
    for old, new in zip(before.city.agents, after.city.agents, strict=True):
        assert old.settings == new.settings


def test_every_rig_has_all_names_of_a_namepool(city: Path) -> None:
    (city / "agents/cook/namepool.txt").write_text("anna\nbert\n")
    (city / "agents/cook/agent.toml").write_text('provider = "shell"\nscope = "rig"\n')

    def names(*rigs: str) -> list[tuple[str, ...]]:
        tables = "".join(f'[[rigs]]\nname = "{rig}"\npath = "{rig}"\n' for rig in rigs)
        for rig in rigs:
            (city / rig).mkdir(exist_ok=True)
        (city / "city.toml").write_text(tables)
        configs = [load(city).agent(f"{rig}/cook") for rig in rigs]
        return [config.pool.names for config in configs if config is not None]

    assert names("web") == [("anna", "bert")]
    assert names("web", "api") == [("web-anna", "web-bert"), ("api-anna", "api-bert")]
