"""Servers are started by the real programs with every argument, variable and header we wrote."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gascity.cli.context import machine
from gascity.mcp.delivery import FILE, LAUNCH
from gascity.mcp.launch import launch_arguments
from gascity.workdir.planner import launch_file, open_scope, requirements_of
from tests.providers.conftest import Equipped
from tests.support import mcp_server
from tests.support.city import CityBuilder
from tests.support.command import Command
from tests.support.mcp_server import HttpServer

pytestmark = pytest.mark.providers

# What makes each program start its servers; {} are the flags of the launch. The model it wants
# to talk to is at WEB, where nothing that it says is understood.
WEB = "{web}"
STARTS: Mapping[str, tuple[str, ...]] = {
    "amp": ("{}", "mcp", "doctor"),
    "auggie": ("--print", "--allow-indexing", "{}", "--instruction", "say hi"),
    "claude": ("{}", "-p", "/context"),
    "codex": (
        *("exec", "--skip-git-repo-check", "{}", "-c", "model_provider=nobody", "-c"),
        f'model_providers.nobody={{name="nobody",base_url="{WEB}",wire_api="responses",'
        "request_max_retries=0,stream_max_retries=0}",
        "say hi",
    ),
    "copilot": ("{}", "-p", "say hi", "--output-format", "json", "--trust-folder"),
    "droid": ("{}", "mcp", "list"),
    "gemini": ("{}", "mcp", "list"),
    "grok": ("{}", "mcp", "doctor"),
    "kilo": ("{}", "mcp", "list"),
    "opencode": ("{}", "mcp", "list"),
    "qwen": ("--auth-type", "openai", "{}", "-o", "stream-json", "say hi"),
}
LAUNCHED = ("amp", "auggie", "claude", "copilot", "kilo", "opencode", "qwen")
ALWAYS_LAUNCHED = ("amp", "kilo", "qwen")  # servers of their files need approval, or no references
NO_HEADERS = ("auggie", "codex")  # text with a reference in it is not possible: it is left out
MODELS: Mapping[str, Mapping[str, str]] = {
    "auggie": {
        "AUGMENT_SESSION_AUTH": f'{{"accessToken":"x","tenantURL":"{WEB}","scopes":["read"]}}'
    },
    "copilot": {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": WEB,
        "COPILOT_PROVIDER_API_KEY": "fakekey",
        "COPILOT_MODEL": "gpt-4.1",
    },
    "qwen": {"OPENAI_BASE_URL": WEB, "OPENAI_API_KEY": "fakekey", "OPENAI_MODEL": "m"},
}


def agent_files(agent: str, web: HttpServer, witness: Path) -> dict[str, str | bytes]:
    """An agent with a server of either kind, whose values are not easy to hand on."""
    return {
        f"agents/{agent}/prompt.md": "Keep the harbour.\n",
        f"agents/{agent}/agent.toml": 'work_dir = "shared"\n',
        f"agents/{agent}/mcp/{agent}-probe.toml": (
            f'name = "{agent}-probe"\ndescription = "Echoes."\ncommand = "{sys.executable}"\n'
            f'args = ["{mcp_server.__file__}", "--witness", "{witness}", "{agent}\'s b c"]\n'
            '[env]\nGREETING = "${HARBOUR_WORD}"\n'
        ),
        f"agents/{agent}/mcp/{agent}-web.toml": (
            f'name = "{agent}-web"\ndescription = "Echoes far away."\nurl = "{web.url}"\n'
            f'[headers]\nX-Harbour = "{agent} ${{HARBOUR_WORD}}"\n'
        ),
    }


@pytest.mark.parametrize("name", [name for name in STARTS if name not in ALWAYS_LAUNCHED])
def test_servers_of_its_file_get_every_value(
    name: str,
    city: CityBuilder,
    run: Command,
    web: HttpServer,
    equipped: Equipped,
    tmp_path: Path,
) -> None:
    env = {**equipped(name), "HARBOUR_WORD": "ahoy there"}
    files = agent_files("mayor", web, tmp_path / "witness")
    root = city.write({"city.toml": f'[workspace]\nprovider = "{name}"\n', **files})
    assert run("apply", cwd=root, env=env).code == 0
    start(name, root, env, web, FILE)
    assert reached(tmp_path / "witness") == {("mayor's b c", "ahoy there")}
    assert sent_header(web) == (set() if name in NO_HEADERS else {"mayor ahoy there"})


@pytest.mark.parametrize("name", LAUNCHED)
def test_a_launch_starts_the_servers_of_its_own_agent_and_no_others(
    name: str,
    city: CityBuilder,
    run: Command,
    web: HttpServer,
    equipped: Equipped,
    tmp_path: Path,
) -> None:
    env = {**equipped(name), "HARBOUR_WORD": "ahoy there"}
    files = {
        **agent_files("mayor", web, tmp_path / "witness"),
        **agent_files("clerk", web, tmp_path / "witness"),
    }
    root = city.write({"city.toml": f'[workspace]\nprovider = "{name}"\n', **files})
    assert run("apply", cwd=root, env=env).code == 0
    start(name, root, env, web, LAUNCH)
    assert reached(tmp_path / "witness") == {("mayor's b c", "ahoy there")}
    assert sent_header(web) == (set() if name in NO_HEADERS else {"mayor ahoy there"})


def reached(witness: Path) -> set[tuple[str, str]]:
    """Last argument and greeting of every stdio server that was started."""
    lines = witness.read_text().splitlines() if witness.exists() else []
    found = [json.loads(line) for line in lines]
    return {(one["argv"][-1], one["greeting"]) for one in found}


def sent_header(web: HttpServer) -> set[str]:
    """What the HTTP server was told in the header that is ours."""
    headers = [(key.lower(), value) for one in web.seen for key, value in one.items()]
    return {value for key, value in headers if key == "x-harbour"}


def start(name: str, root: Path, env: Mapping[str, str], web: HttpServer, mode: str) -> None:
    """Launch the mayor as a session would be; how it ends without a model does not matter."""
    scope = open_scope(str(root), {**os.environ, **env}, machine(), "mayor")
    provider = scope.planner.city.providers[name]
    workdir, claims = requirements_of(scope, scope.agents[0])
    delivery = claims.deliveries["mayor"]
    assert delivery.mode == mode
    launch = launch_arguments(provider, delivery, workdir, launch_file(str(root), "mayor"))
    words = [name]
    for word in STARTS[name]:
        words += launch.args if word == "{}" else (word.replace(WEB, web.url),)
    model = {key: text.replace(WEB, web.url) for key, text in MODELS.get(name, {}).items()}
    ran(words, Path(workdir), {**env, **model, **launch.env})


def ran(words: list[str], workdir: Path, env: Mapping[str, str]) -> None:
    subprocess.run(
        words,
        cwd=workdir,
        env={**os.environ, **env, "PWD": str(workdir)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
    )
