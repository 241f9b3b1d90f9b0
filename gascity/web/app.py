"""The routes of the server."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from gascity.cli.problems import store_problem
from gascity.store.port import StoreError
from gascity.web.access import ServerName, Visitor
from gascity.web.actions import act, read_form
from gascity.web.guard import Guard, cookie_name
from gascity.web.live import (
    changes,
    find_session_log,
    find_work_log,
    log_lines,
    offset_of,
    stream,
)
from gascity.web.pages.agents import agent_list, agent_page
from gascity.web.pages.changes import changes_page
from gascity.web.pages.city import city_page
from gascity.web.pages.delegation import delegation_list, delegation_page
from gascity.web.pages.packs import pack_list, pack_page
from gascity.web.pages.sessions import screen_text, session_list, session_page
from gascity.web.pages.sling import sling_page
from gascity.web.pages.work import diff_page, work_list, work_page
from gascity.web.site import CitySite, Page, failed, is_name, not_found
from gascity.web.templating import STATIC, render

_WRONG_PASSWORD = 1.0  # seconds that a wrong password costs

PageFunction = Callable[[CitySite, Request], Awaitable[Page]]
_PAGES: dict[str, PageFunction] = {
    "/": city_page,
    "/work": work_list,
    "/work/{id}": work_page,
    "/work/{id}/diff": diff_page,
    "/sessions": session_list,
    "/sessions/{id}": session_page,
    "/agents": agent_list,
    "/agents/{name:path}": agent_page,
    "/packs": pack_list,
    "/packs/{name:path}": pack_page,
    "/delegation": delegation_list,
    "/delegation/{id}": delegation_page,
    "/changes": changes_page,
    "/sling": sling_page,
}


def make_app(site: CitySite, server: ServerName) -> ASGIApp:
    """Return the application that serves a site under these names."""

    async def action(request: Request) -> Response:
        return await act(site, request)

    async def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if request.state.visitor is None:
            return PlainTextResponse("Not found.\n", status)
        shown = not_found("Not found", "There is no such page.", "", "city web")
        return site.respond(request, shown._replace(status=status), site.reader.version)

    routes = [
        *_streams(site),  # before the pages: the path of an agent may contain anything
        *(_page(site, path, function) for path, function in _PAGES.items()),
        Route("/actions/{action}", action, methods=["POST"]),
        *_entrance(site, server),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(routes=routes, exception_handlers={404: missing, 405: missing})
    return Guard(app, site.visitors, server)


def _page(site: CitySite, path: str, function: PageFunction) -> Route:
    async def shown(request: Request) -> Page:
        try:
            return await function(site, request)
        except StoreError as error:
            return failed("Store", "", "city doctor", [store_problem(error)._asdict()])

    async def handle(request: Request) -> Response:
        if "x-fragment" not in request.headers and _takes_time(site, path, request):
            section = path.split("/")[1] or "city"
            name = "".join(map(str, request.path_params.values())) or section.capitalize()
            frame = Page("layout.html", name, section, "", {})
            return site.respond_in_parts(request, frame, shown(request))
        changes = site.reader.version
        return site.respond(request, await shown(request), changes)

    return Route(path, handle, methods=["GET"])


def _takes_time(site: CitySite, path: str, request: Request) -> bool:
    """Return whether a page waits for a command or a large store, and probably exists.

    The status of a response that has started cannot be changed to 404 any more.
    """
    if path == "/agents/{name:path}":
        return request.path_params["name"] in site.config.current.agents
    if path == "/packs/{name:path}":
        return is_name(request.path_params["name"])
    return path in ("/", "/work", "/work/{id}/diff", "/packs", "/changes")


def _streams(site: CitySite) -> list[Route]:
    """Return the routes of what an open page follows."""

    async def live(_: Request) -> Response:
        return stream(changes(site))

    async def work_log(request: Request) -> Response:
        find = find_work_log(request.path_params["id"])
        return stream(log_lines(site, find, offset_of(request)))

    async def session_log(request: Request) -> Response:
        find = find_session_log(request.path_params["id"])
        return stream(log_lines(site, find, offset_of(request)))

    async def screen(request: Request) -> Response:
        text = await screen_text(site, request)
        return PlainTextResponse(text or "", 200 if text is not None else 404)

    return [
        Route("/live", live, methods=["GET"]),
        Route("/work/{id}/log", work_log, methods=["GET"]),
        Route("/sessions/{id}/log", session_log, methods=["GET"]),
        Route("/sessions/{id}/screen", screen, methods=["GET"]),
    ]


def _entrance(site: CitySite, server: ServerName) -> list[Route]:
    """Return the routes by which a browser gets the cookie."""

    async def follow_link(request: Request) -> Response:
        visitor = site.visitors.follow(request.query_params.get("token", ""))
        if visitor is None:
            if request.state.visitor is not None:  # it has the cookie already
                return RedirectResponse("/", 303)
            text = (
                "This link was used or is older than 60 seconds. Run `city web` again, or press"
                " Enter where it runs, to get another.\n"
            )
            return PlainTextResponse(text, 403)
        # Not a redirect: a browser that followed a link on another site would not send the new
        # cookie with it.
        return _with_cookie(HTMLResponse(render("opened.html", {})), visitor, server.port)

    async def ask_password(request: Request) -> Response:
        del request
        if not site.visitors.has_password:
            return PlainTextResponse("Not found.\n", 404)
        return HTMLResponse(render("login.html", {"wrong": False}))

    async def check_password(request: Request) -> Response:
        try:
            form = await read_form(request)
        except ValueError:
            form = {}
        visitor = site.visitors.log_in(form.get("token", ""))
        if visitor is None:
            await asyncio.sleep(_WRONG_PASSWORD)
            return HTMLResponse(render("login.html", {"wrong": True}), 403)
        return _with_cookie(RedirectResponse("/", 303), visitor, server.port)

    return [
        Route("/open", follow_link, methods=["GET"]),
        Route("/login", ask_password, methods=["GET"]),
        Route("/login", check_password, methods=["POST"]),
    ]


def _with_cookie(response: Response, visitor: Visitor, port: int) -> Response:
    response.set_cookie(cookie_name(port), visitor.cookie, httponly=True, samesite="strict")
    return response
