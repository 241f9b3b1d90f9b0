"""Actions of a visitor: each is a form that runs the command it shows.

The command makes the checks and records the events, as if the user had typed it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from gascity.web.access import form_token_matches
from gascity.web.commands import shown_command, to_answer
from gascity.web.guard import LARGEST_BODY, same_path
from gascity.web.pages.agents import plan_mark
from gascity.web.site import CitySite, Page, is_name

_LONGEST_TEXT = 100_000
_LONGEST_NAME = 500


class Outcome(NamedTuple):
    """Result of an action: the command, whether it succeeded, and its output in lines."""

    command: str
    ok: bool
    lines: list[str]
    location: str = ""  # the page to show next; "": the one that the form is on


Form = Mapping[str, str]
Action = Callable[[CitySite, Form], Awaitable[Outcome]]


async def read_form(request: Request) -> Form:
    """Return the fields of a form; ValueError if it is too large or something else."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise ValueError("the form is too large")
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/x-www-form-urlencoded":
        raise ValueError("expected a form")
    fields = parse_qs(body.decode("utf-8", "strict"), keep_blank_values=True, max_num_fields=50)
    return {name: values[-1] for name, values in fields.items()}


async def act(site: CitySite, request: Request) -> Response:
    """Run an action if the form came from a page of this visitor."""
    action = ACTIONS.get(request.path_params["action"])
    if action is None:
        return PlainTextResponse("There is no such action.\n", 404)
    try:
        form = await read_form(request)
    except ValueError as error:
        return PlainTextResponse(f"Refused: {error}.\n", 400)
    if not form_token_matches(request.state.visitor, form.get("form_token", "")):
        return PlainTextResponse("Refused: the form is not of this page; load it again.\n", 403)
    try:
        if not site.reader.controller.running:
            raise ValueError("Read-only: the controller is not running. Run `city start`.")
        outcome = await action(site, form)
    except ValueError as error:
        outcome = Outcome("", False, [str(error)])
    location = outcome.location or same_path(form.get("next", "/"))
    status = 200 if outcome.ok else 422
    if "x-fragment" in request.headers:
        return JSONResponse(outcome._asdict(), status)
    values = {"outcome": outcome, "next": location}
    page = Page("outcome.html", "Done" if outcome.ok else "Failed", "", outcome.command, values)
    return HTMLResponse(site.render(request, page), status)


def _name(form: Form, field: str) -> str:
    """Return a field that names something; ValueError if it is empty or looks like an option."""
    value = form.get(field, "").strip()
    if not is_name(value) or len(value) > _LONGEST_NAME:
        raise ValueError(f"the field `{field}` is missing or not valid")
    return value


def _text(form: Form) -> str:
    text = form.get("text", "").replace("\r\n", "\n")
    if not text.strip():
        raise ValueError("the text is empty")
    if len(text) > _LONGEST_TEXT or "\0" in text:
        raise ValueError(f"the text has more than {_LONGEST_TEXT:,} characters or a NUL")
    return text


async def _run(site: CitySite, *arguments: str, location: str = "") -> Outcome:
    printed = await site.commands.act(*arguments)
    ok = printed.code == 0
    return Outcome(shown_command(*arguments), ok, printed.lines, location if ok else "")


async def _sling(site: CitySite, form: Form) -> Outcome:
    arguments = ["sling", _name(form, "agent"), "--stdin"]
    if form.get("rig", "").strip():
        arguments += ["--rig", _name(form, "rig")]
    priority = form.get("priority", "")
    if priority in ("0", "1", "3", "4"):
        arguments += ["--priority", priority]
    command = shown_command(*arguments)
    answer = to_answer(await site.commands.act(*arguments, "--json", text=_text(form)))
    if answer.failed:
        lines = [str(each[key]) for each in answer.problems for key in ("message", "hint")]
        return Outcome(command, False, [line for line in lines if line != "None"])
    value = answer.value
    blocked = [f"blocked: {each['message']}" for each in value["blocked_by"]]
    lines = [f"{value['work']} queued for {value['agent']}", *blocked]
    return Outcome(command, True, lines, f"/work/{value['work']}")


async def _nudge(site: CitySite, form: Form) -> Outcome:
    return await _run(site, "session", "nudge", _name(form, "session"), "--", _text(form))


async def _stop(site: CitySite, form: Form) -> Outcome:
    return await _run(site, "session", "stop", _name(form, "session"))


async def _retry(site: CitySite, form: Form) -> Outcome:
    return await _run(site, "work", "retry", _name(form, "work"))


async def _cancel(site: CitySite, form: Form) -> Outcome:
    return await _run(site, "work", "cancel", _name(form, "work"))


async def _merge(site: CitySite, form: Form) -> Outcome:
    options = [f"--{name}" for name in ("squash", "push", "delete") if form.get(name)]
    id = _name(form, "work")
    return await _run(site, "work", "merge", id, *options, "--yes", location=f"/work/{id}")


async def _apply(site: CitySite, form: Form) -> Outcome:
    """Apply the plan that the visitor saw; refused if it is another one by now."""
    name = _name(form, "agent")
    planned = await site.commands.run("plan", name)
    if plan_mark(planned.output) != form.get("mark", ""):
        message = "The plan has changed since the page was loaded. Read it again, then apply."
        return Outcome(shown_command("apply", name), False, [message])
    printed = await site.commands.run("apply", name)
    return Outcome(shown_command("apply", name), printed.code == 0, printed.lines)


ACTIONS: Mapping[str, Action] = {
    "sling": _sling,
    "nudge": _nudge,
    "stop": _stop,
    "retry": _retry,
    "cancel": _cancel,
    "merge": _merge,
    "apply": _apply,
}
