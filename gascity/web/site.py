"""State that the pages of one server share; turns a page into a response."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, StreamingResponse

from gascity import __version__
from gascity.cli.context import CommandContext
from gascity.web.access import Visitors
from gascity.web.charts import RecentActivity
from gascity.web.commands import Commands
from gascity.web.config_view import ConfigView
from gascity.web.live_reader import LiveReader
from gascity.web.templating import render

PAGE = 50  # rows of a list
# Pages that are answers of commands depend on files, and a command costs far more than a read of
# the store: an open one is read again after this many milliseconds at the earliest.
_PAUSE = 3000
_FROM_COMMANDS = {"agent.html", "changes.html", "diff.html", "pack.html", "pack_list.html"}


class Page(NamedTuple):
    """A page: its template, its title, the command that prints the same, and its values."""

    template: str
    title: str
    section: str  # the entry of the menu
    command: str
    values: Mapping[str, Any]
    status: int = 200


class CitySite:
    """The city that the server shows."""

    def __init__(self, context: CommandContext, visitors: Visitors) -> None:
        self.root = context.root
        self.visitors = visitors
        self.reader = LiveReader(context)
        self.commands = Commands(context.root, context.cwd, context.environ)
        self.activity = RecentActivity()
        self.config = ConfigView(context.root, self.commands, self.reader.publish)

    def respond(self, request: Request, page: Page, changes: int) -> HTMLResponse:
        """Return a page, or its main part for a page that is already open.

        `changes` is the version of the city before the page was read.
        """
        block = "main" if "x-fragment" in request.headers else ""
        return HTMLResponse(self.render(request, page, block, changes), page.status)

    def respond_in_parts(
        self, request: Request, start: Page, rest: Awaitable[Page]
    ) -> StreamingResponse:
        """Return a page whose content takes time: its frame first, so that the browser starts."""

        async def parts() -> AsyncIterator[str]:
            yield self.render(request, start, "start", self.reader.version)
            page = await rest
            yield self.render(request, page, "main")
            yield self.render(request, page, "end")

        return StreamingResponse(parts(), media_type="text/html")

    def render(self, request: Request, page: Page, block: str = "", changes: int = -1) -> str:
        """Return a page as HTML, or one block of it."""
        if block != "main":
            self.reader.ask_controller()
            self.config.refresh()
        values = {
            "title": page.title,
            "section": page.section,
            "command": page.command,
            "city": self.config.current.name,
            "root": self.root,
            "agent_colours": self.config.current.colours,
            "controller": self.reader.controller,
            "form_token": request.state.visitor.form_token,
            "here": str(request.url.path),
            "version": __version__,
            "changes": changes,
            "pause": _PAUSE if page.template in _FROM_COMMANDS else 0,
            **page.values,
        }
        return render(page.template, values, block)


def not_found(title: str, message: str, section: str, command: str) -> Page:
    """Return the page for something that does not exist."""
    return Page("missing.html", title, section, command, {"message": message}, 404)


def failed(title: str, section: str, command: str, problems: Sequence[Mapping[str, Any]]) -> Page:
    """Return the page for a command that failed, with its problems."""
    return Page("failed.html", title, section, command, {"problems": problems}, 200)


def is_name(text: str) -> bool:
    """Return whether a command takes a text of an address as a name, and not as an option."""
    return bool(text) and not text.startswith("-") and text.isprintable()


def words_of(request: Request) -> list[str]:
    """Return the words that a list is filtered by."""
    return request.query_params.get("q", "").split()[:8]


def start_of(request: Request) -> int:
    """Return the number of the first row that a list shows."""
    text = request.query_params.get("start", "")
    return int(text) if text.isdecimal() and len(text) < 9 else 0


def matches(words: Sequence[str], *texts: object) -> bool:
    """Return whether the texts contain every word, in any case."""
    text = " ".join(map(str, texts)).casefold()
    return all(word.casefold() in text for word in words)
