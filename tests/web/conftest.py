"""A city with a store, and a browser that talks to its page in this process."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

import pytest

from gascity.cli.context import CommandContext
from gascity.control.client import ControllerState
from gascity.model.work import NewWork, Work
from gascity.store import open_store
from gascity.store.port import Store
from gascity.web.access import Visitors, server_name
from gascity.web.app import make_app
from gascity.web.commands import Commands, Printed
from gascity.web.site import CitySite
from tests.support.in_process import InProcess
from tests.support.trees import build_tree

HOST = "127.0.0.1:4747"
FILES: Mapping[str, str] = {
    "city.toml": '[workspace]\nname = "harbour"\nprovider = "claude"\n\n[imports.crew]\n'
    'source = "packs/crew"\n\n[agent_defaults]\nidle_timeout = "1h"\n',
    "agents/mayor/prompt.md": "You are the mayor.\n",
    "agents/mayor/agent.toml": 'description = "Keeps the <harbour> open."\nidle_timeout = "2h"\n\n'
    '[env]\nHARBOUR_TOKEN = "s3cr3t-harbour"\n',
    "agents/mayor/skills/ledger/SKILL.md": (
        "---\nname: ledger\ndescription: Write down who came.\n---\nWrite.\n"
    ),
    "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
    "packs/crew/agents/pilot/agent.toml": 'description = "Brings ships in."\n',
    "packs/crew/agents/pilot/prompt.md": "You are the pilot.\n",
}


class Response(NamedTuple):
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    text: str


class CommandsHere(Commands):
    """Runs commands in this process, which is ten times as fast."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), str(root), os.environ)
        self.ran: list[tuple[str, ...]] = []
        self._here = InProcess(root)

    async def run(self, *arguments: str, text: str = "", cwd: str = "/") -> Printed:
        self.ran.append(arguments)
        if text:  # standard input needs a process
            return await super().run(*arguments, text=text, cwd=cwd)
        ran = self._here(*arguments, env={"CITY_ROOT": str(self._here.cwd)}, cwd=Path(cwd))
        return Printed(ran.code, ran.out, ran.err)


class Browser:
    """Sends requests to the page of a city, with its cookie once it followed the link."""

    def __init__(self, root: Path, password: str = "") -> None:
        self.now = 1000.0
        self.visitors = Visitors(lambda: self.now, password)
        context = CommandContext(os.environ, str(root), str(root))
        self.site = CitySite(context, self.visitors)
        self.commands = CommandsHere(root)
        self.site.commands = self.commands
        self.site.config._commands = self.commands
        self.site.reader.controller = ControllerState(True, os.getpid(), time.time())
        self.app = make_app(self.site, server_name("127.0.0.1", 4747, "box"))
        self.cookie = ""
        self.runner = asyncio.Runner()

    def enter(self) -> "Browser":
        """Follow a link, as the browser does that `city web` opens."""
        answer = self.get(f"/open?token={self.visitors.new_link()}")
        assert answer.status == 200, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    @property
    def form_token(self) -> str:
        visitor = self.visitors.find(self.cookie.partition("=")[2])
        assert visitor is not None
        return visitor.form_token

    def get(self, path: str, **headers: str) -> Response:
        return self.request("GET", path, headers)

    def post(self, path: str, form: Mapping[str, str], **headers: str) -> Response:
        """Send a form as the page does; headers replace its own."""
        usual = {
            "origin": f"http://{HOST}",
            "content-type": "application/x-www-form-urlencoded",
        }
        fields = {"form_token": self.form_token if self.cookie else "", **form}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", path, {**usual, **given}, urlencode(fields).encode())

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        return self.runner.run(self._request(method, path, headers, body))

    async def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Response:
        sent: list[dict[str, Any]] = []
        given = {"host": HOST, "content-length": str(len(body)), **headers}
        given |= {"cookie": self.cookie} if self.cookie and "cookie" not in headers else {}
        parts = urlsplit(path)
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [
                (name.replace("_", "-").encode(), value.encode())
                for name, value in given.items()
                if value
            ],
            "server": ("127.0.0.1", 4747),
            "client": ("127.0.0.1", 50000),
        }

        received = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not received:
                await asyncio.Event().wait()  # the browser stays connected
            return received.pop()

        async def send(message: Any) -> None:
            sent.append(dict(message))

        await self.app(scope, receive, send)
        start = sent[0]
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
        return Response(start["status"], answered, text)

    def stream(self, messages: Any, count: int) -> list[str]:
        """Return the first messages of a stream."""

        async def take() -> list[str]:
            taken: list[str] = []
            try:
                async with asyncio.timeout(30):
                    async for message in messages:
                        taken.append(message)
                        if len(taken) == count:
                            break
            finally:
                await messages.aclose()
            return taken

        return self.runner.run(take())

    def close(self) -> None:
        self.runner.run(self.site.reader.close())
        self.runner.close()


@pytest.fixture
def harbour(tmp_path: Path) -> Path:
    return build_tree(tmp_path / "harbour", FILES)


@pytest.fixture
def store(harbour: Path) -> Iterator[Store]:
    opened = open_store(str(harbour))
    yield opened
    opened.close()


@pytest.fixture
def stranger(harbour: Path) -> Iterator[Browser]:
    """A browser without the cookie."""
    browser = Browser(harbour)
    yield browser
    browser.close()


@pytest.fixture
def browser(stranger: Browser) -> Browser:
    """A browser with the cookie."""
    return stranger.enter()


def sling(store: Store, title: str = "Open the gate", agent: str = "mayor", **more: Any) -> Work:
    return store.add_work(NewWork(agent, title, more.pop("body", title), **more), time.time())
