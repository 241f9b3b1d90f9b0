"""Runs of the real programs, as our facts start them, with a stand-in for the model."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from gascity.agent_files import agent_file
from gascity.cli.context import machine
from gascity.mcp.delivery import FILE, Delivery
from gascity.mcp.launch import LaunchArguments, launch_arguments
from gascity.render.agent_tools import FileTarget
from gascity.render.argv import Invocation, Message, build_invocation
from gascity.render.flags import HEADLESS, own_delivery
from gascity.render.run_output import RunOutput, parse
from gascity.workdir.planner import launch_file, open_scope, requirements_of
from tests.providers.conftest import Equipped
from tests.providers.install import CLIS
from tests.providers.model_server import (
    ANSWER,
    ANSWERED,
    SENT,
    ModelServer,
    may_call,
    spaceless,
    texts,
)
from tests.providers.setups import SETUPS, asking_call, shell_call
from tests.support.city import CityBuilder, agent_of

pytestmark = pytest.mark.providers

PROMPT = "You keep the harbour — both moles of it.\n"
FIRST, SECOND = 'Count the "ships".\nAll $OF them.', "Now the boats."
MAX_ARG_BYTES = 120  # seconds

RUN = sorted(SETUPS.keys() & CLIS)
TELLS_NO_TOKENS = ("copilot", "kimi")
CANNOT_RESUME = ("cline",)
NAMES_SKILLS = ("cline",)  # without their descriptions
# droid and qwen were still trying again after a minute; with the answer 429 alone they do so for
# as long as a run may take. kilo is opencode here.
TRIES_ON = ("droid", "kilo", "qwen")
# Programs that take denied tools away from the model, and a tool each that must go and stay.
TAKES_AWAY = {
    "claude": ("Edit", "Read"),
    "droid": ("Execute", "Read"),
    "qwen": ("write_file", "read_file"),
}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Harbour(NamedTuple):
    """A place where an agent of one provider runs."""

    name: str
    city: CityBuilder
    env: Mapping[str, str]
    model: ModelServer
    box: Path

    def invoke(self, text: str, conversation: str, resume: bool) -> Invocation:
        setup = SETUPS[self.name]
        city = self.city.open()
        provider, agent = city.providers[self.name], agent_of(city, "mayor")
        trust = self.launch()
        args = tuple(word.replace("{url}", self.model.url) for word in setup.args)
        by_file = own_delivery(provider, agent) == "file"
        if by_file:
            file = agent_file(agent, PROMPT, FileTarget(provider, own=True))
            path = self.box / (provider.facts.agents.directory or "") / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text)
        return build_invocation(
            HEADLESS,
            provider,
            agent,
            Message(PROMPT, text),
            conversation=conversation,
            resume=resume,
            extra=trust._replace(args=trust.args + args, file_prompt=PROMPT if by_file else None),
            file_path=lambda name: str(self.box / name),
            environ=self.env,
        )

    def apply(self) -> None:
        """Write the agent's servers into its directory, as `city apply` does."""
        words = [sys.executable, "-m", "gascity", "apply", "mayor"]
        around = {**os.environ, **self.env}
        subprocess.run(words, cwd=self.city.root, env=around, check=True, capture_output=True)

    def launch(self) -> LaunchArguments:
        """Return the arguments of a launch; with servers in the city, after it was applied."""
        root = str(self.city.root)
        around = {**os.environ, **self.env}
        if not (self.city.root / "mcp").is_dir():
            provider = self.city.open().providers[self.name]
            return launch_arguments(provider, Delivery("mayor", FILE), str(self.box), "")
        scope = open_scope(root, around, machine(), "mayor")
        workdir, claims = requirements_of(scope, scope.agents[0])
        provider = scope.planner.city.providers[self.name]
        file = launch_file(root, "mayor")
        return launch_arguments(provider, claims.deliveries["mayor"], workdir, file)

    def run(self, text: str, conversation: str = "", resume: bool = False) -> tuple[int, RunOutput]:
        """Run it as a session would be run: all that it prints goes to one place."""
        made = self.invoke(text, conversation or str(uuid.uuid4()), resume)
        assert not any(problem.is_error for problem in made.problems)
        for name, content in made.files.items():
            (self.box / name).write_text(content)
        city = self.city.open()
        own = agent_of(city, "mayor").settings.env
        around = {**os.environ, **self.env, **(own if isinstance(own, dict) else {}), **made.env}
        around["PWD"] = str(self.box)  # as the shell that starts a run sets it; OpenCode trusts it
        process = subprocess.Popen(
            made.argv,
            cwd=self.box,
            env=around,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(made.stdin.encode(), timeout=MAX_ARG_BYTES)
        finally:
            end(process.pid)
        facts = city.providers[self.name]
        found = parse(
            facts.facts.headless.output,
            [out],
            process.returncode,
            pattern=facts.facts.limits.rate_limit_pattern or "",
        )
        return process.returncode, found._replace(
            conversation=found.conversation or made.conversation
        )

    def offered(self) -> set[str]:
        """The tools that the model was offered."""
        tools = next((seen["tools"] for seen in self.model.seen if seen.get("tools")), ())
        return {one["function"]["name"] if "function" in one else one["name"] for one in tools}

    def asked(self) -> str:
        """What the model was asked, since the last time."""
        found = "\n".join(texts(one) for one in self.model.seen)
        self.model.seen.clear()
        return spaceless(found)


def end(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@pytest.fixture
def harbour(
    request: pytest.FixtureRequest,
    city: CityBuilder,
    equipped: Equipped,
    model: ModelServer,
    tmp_path: Path,
    private_home: Path,
) -> Iterator[Harbour]:
    name: str = request.param
    env = equipped(name)
    setup = SETUPS[name]
    for path, content in setup.home.items():
        file = private_home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content.replace("{url}", model.url))
    named = f'model = "{setup.model}"\n' if setup.model else ""
    city.write(
        {
            "city.toml": f'[workspace]\nprovider = "{name}"\n',
            "agents/mayor/prompt.md": PROMPT,
            "agents/mayor/agent.toml": named,
        }
    )
    box = tmp_path / "box"
    box.mkdir()
    more = {key: value.replace("{url}", model.url) for key, value in setup.env.items()}
    yield Harbour(name, city, {**env, **more}, model, box)
    end_strays(private_home)


def end_strays(home: Path) -> None:
    """Some leave a process of their own behind, in a session of its own: cline does.

    Children of the tests stay: the server of tests/support/forkserver.py started with this home.
    """
    wanted, ours = f"HOME={home}".encode(), os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != ours:
            try:
                around = (entry / "environ").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if wanted in around and parent != ours:
                os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.parametrize("harbour", RUN, indirect=True)
def test_a_run_says_what_it_was_told_and_a_later_one_goes_on_with_it(harbour: Harbour) -> None:
    code, first = harbour.run(FIRST)
    assert (code, first.summary, first.error, first.limited) == (0, ANSWER, "", None)
    asked = harbour.asked()
    assert spaceless(PROMPT.strip()) in asked
    assert spaceless(FIRST) in asked
    if harbour.name in TELLS_NO_TOKENS:
        assert first.usage is None
    else:
        # Some ask the model more than once, for a title or for what comes next.
        assert first.usage is not None
        assert first.usage["input"] % SENT == first.usage["output"] % ANSWERED == 0
        assert first.usage["input"] >= SENT
    if harbour.name in CANNOT_RESUME:
        assert first.conversation == ""
        return
    code, second = harbour.run(SECOND, first.conversation, resume=True)
    assert (code, second.summary) == (0, ANSWER)
    asked = harbour.asked()
    assert spaceless(PROMPT.strip()) in asked
    assert spaceless(FIRST) in asked
    assert SECOND in asked


@pytest.mark.observes("prompt", "instructions")
@pytest.mark.parametrize("harbour", RUN, indirect=True)
def test_the_prompt_and_the_instructions_of_the_directory_reach_the_model(
    harbour: Harbour,
) -> None:
    facts = harbour.city.open().providers[harbour.name].facts
    file = harbour.box / (facts.instructions_file or "")
    file.write_text("Say halyard, never rope.\n")
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    asked = harbour.asked()
    for text in (PROMPT.strip(), FIRST, "Say halyard, never rope."):
        assert spaceless(text) in asked


@pytest.mark.observes("skills")
@pytest.mark.parametrize("harbour", RUN, indirect=True)
def test_the_skills_of_the_directory_are_offered_to_the_model(
    harbour: Harbour, cell: Callable[[str], None]
) -> None:
    facts = harbour.city.open().providers[harbour.name].facts
    skill = harbour.box / (facts.skills.directory or "") / "tides" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tides\ndescription: Reads the tide of halyards.\n---\nRead it.\n")
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    if harbour.name in NAMES_SKILLS:
        assert spaceless("Available skills: tides") in harbour.asked()
        cell("by name")
    else:
        assert spaceless("Reads the tide of halyards.") in harbour.asked()


@pytest.mark.observes("cut")
@pytest.mark.parametrize("harbour", RUN, indirect=True)
def test_a_run_is_not_done_if_a_permission_cut_it_short(
    harbour: Harbour, cell: Callable[[str], None]
) -> None:
    harbour.model.call = asking_call(harbour.name)
    code, found = harbour.run(FIRST)
    requests = [asked for asked in harbour.model.seen if not may_call(asked) and asked.get("tools")]
    if (harbour.box / "ran").exists():
        assert (code, found.error) == (0, "")
        cell("does not ask")
    elif found.error or code:
        cell("failed")
    else:
        assert requests, "neither the model nor the user learns that the call was refused"
        cell("goes on")


@pytest.mark.parametrize("harbour", RUN, indirect=True)
def test_the_shells_of_a_program_have_the_token_of_their_session(harbour: Harbour) -> None:
    # Claude Code refuses its unrestricted mode to root; Kimi takes no mode, and does not ask.
    permission = '[option_defaults]\npermission_mode = "unrestricted"\n'
    permission = {"claude": '[tools]\nallow = ["shell"]\n', "kimi": ""}.get(
        harbour.name, permission
    )
    file = harbour.city.root / "agents/mayor/agent.toml"
    file.write_text(file.read_text() + permission)
    harbour.model.call = shell_call(harbour.name, "printenv CITY_SESSION_TOKEN > ran")
    place = harbour._replace(env={**harbour.env, "CITY_SESSION_TOKEN": "t-0123"})
    code, found = place.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    assert (harbour.box / "ran").read_text() == "t-0123\n"


@pytest.mark.parametrize("harbour", [one for one in RUN if one not in TRIES_ON], indirect=True)
def test_a_run_that_the_model_turns_away_is_limited(harbour: Harbour) -> None:
    harbour.model.limited = True
    code, found = harbour.run(FIRST)
    assert code != 0
    assert found.limited in (0.0, 1.0)  # where it is told, it is what the model's server said
    assert found.error or found.summary


@pytest.mark.parametrize("harbour", TAKES_AWAY, indirect=True)
def test_the_model_is_not_offered_a_tool_that_the_agent_may_not_use(harbour: Harbour) -> None:
    gone, kept = TAKES_AWAY[harbour.name]
    harbour.run(FIRST)
    assert harbour.offered() >= {gone, kept}
    file = harbour.city.root / "agents/mayor/agent.toml"
    file.write_text(file.read_text() + '[tools]\nallow = ["read"]\n')
    harbour.model.seen.clear()
    code, found = harbour.run(FIRST)
    assert (code, found.summary) == (0, ANSWER)
    assert kept in harbour.offered()
    assert gone not in harbour.offered()
