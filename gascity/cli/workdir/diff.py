"""What a step would change, as a unified diff without any secret in it."""

import re
from collections.abc import Callable, Iterable, Iterator

from gascity.cli.output import BOLD, CYAN, RED, paint
from gascity.materialise.directories import Planned, Planner
from gascity.model.city import Agent
from gascity.model.plan import ABSENT, FILE, LINK, Step
from gascity.model.references import names_in
from gascity.model.secrets import (
    HIDDEN,
    agent_secrets,
    hidden_in,
    is_secret,
    masked_line,
    spellings,
)
from gascity.render import documents
from gascity.servers import launch_value

_GREEN = "32"
_PAIR = re.compile(r'("(?P<key>(?:[^"\\]|\\.)+)"\s*:\s*)"(?:[^"\\]|\\.)*"')
_NOT_SHOWN = "(it may hold secrets, and is not shown)"
_COLOURS = {"+": _GREEN, "-": RED, "@": CYAN}


def step_diff(planner: Planner, planned: Planned, step: Step, colour: bool) -> Iterator[str]:
    """The difference one step makes; nothing for steps that only keep."""
    change = step.change
    if change is None:
        return
    before = _side(planner, planned, step, after=False)
    after = _side(planner, planned, step, after=True)
    yield paint(f"--- {_name(step, change.expected.kind != ABSENT, 'a')}", BOLD, colour)
    yield paint(f"+++ {_name(step, change.kind != ABSENT, 'b')}", BOLD, colour)
    yield from _changed(before, after, change.mode != change.expected.mode, colour)


def text_diff(path: str, before: bytes | None, after: bytes | None, colour: bool) -> Iterator[str]:
    """The difference between two contents of a file; None where there is none."""
    yield paint(f"--- {f'a/{path}' if before is not None else '/dev/null'}", BOLD, colour)
    yield paint(f"+++ {f'b/{path}' if after is not None else '/dev/null'}", BOLD, colour)
    old, new = (_text_lines(data or b"", lambda text: text) for data in (before, after))
    yield from _changed(old, new, False, colour)


def _changed(
    before: list[str] | None, after: list[str] | None, modes: bool, colour: bool
) -> Iterator[str]:
    if before is None or after is None:
        yield "(not text)"
        return
    if before == after:
        yield "(mode)" if modes else "(only what is not shown differs)"
    for line in _unified(before, after):
        yield paint(line, _COLOURS.get(line[:1], ""), colour and line[:1] in _COLOURS)


def _name(step: Step, there: bool, side: str) -> str:
    return f"{side}/{step.path}" if there else "/dev/null"


def _side(planner: Planner, planned: Planned, step: Step, *, after: bool) -> list[str] | None:
    change = step.change
    assert change is not None
    kind = change.kind if after else change.expected.kind
    if kind == LINK:
        return [f"link to {change.target if after else change.expected.target}"]
    if kind != FILE:
        return []
    if not after and not change.expected.mode & 0o077:
        return [_NOT_SHOWN]  # secrets that were put in before may be known to nobody now
    data = _data(planner, planned, step) if after else _now(planned, step)
    return _text_lines(data, lambda text: _hidden(planner, planned, step, text))


def _text_lines(data: bytes, hide: Callable[[str], str]) -> list[str] | None:
    """Lines as they may be shown; None for what is no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else [_masked(line) for line in hide(text).splitlines()]


def _data(planner: Planner, planned: Planned, step: Step) -> bytes:
    assert step.change is not None
    if step.change.data is not None:
        return step.change.data
    return planner.content(planned.claims.wanted[step.path])


def _now(planned: Planned, step: Step) -> bytes:
    return planned.read(step.path)


def _hidden(planner: Planner, planned: Planned, step: Step, text: str) -> str:
    """A text without the secrets that its servers or the agent's environment brought in."""
    wanted = planned.claims.wanted.get(step.path)
    held = planned.ledger.paths.get(step.path)
    shape = (wanted.shape if wanted else None) or (held.shape if held else None)
    if shape is not None:
        text = documents.hide(text, shape)
    return hidden_in(text, _secrets(planner, planned))


def _secrets(planner: Planner, planned: Planned) -> Iterable[str]:
    found: set[str] = set()
    for site in planned.sites:
        found.update(agent_secrets(site.agent.value("env")).values())
        found |= _looked_up(planner, planned, site.agent)
    for effective in planned.claims.servers.values():
        for server in effective.servers:
            found |= server.secrets
    return {one for secret in found if len(secret) > 2 for one in spellings(secret)}


def _looked_up(planner: Planner, planned: Planned, agent: Agent) -> set[str]:
    """Values of variables that servers refer to: a provider may need them written out."""
    effective = planned.claims.servers.get(str(agent.name))
    look = launch_value(agent, planner.environ)
    texts = [
        text
        for one in (effective.servers if effective else ())
        for text in (one.command, one.url, *one.args, *one.env.values(), *one.headers.values())
    ]
    return {look(name) or "" for text in texts for name in names_in(text)}


def _masked(line: str) -> str:
    pairs = _PAIR.sub(
        lambda m: f'{m[1]}"{HIDDEN}"' if is_secret(m["key"]) and "${" not in m[0] else m[0], line
    )
    return masked_line(pairs)


def _unified(before: list[str], after: list[str]) -> Iterator[str]:
    if not before:
        yield f"@@ -0,0 +1,{len(after)} @@"
        yield from (f"+{line}" for line in after)
        return
    if not after:
        yield f"@@ -1,{len(before)} +0,0 @@"
        yield from (f"-{line}" for line in before)
        return
    from difflib import unified_diff

    lines = unified_diff(before, after, lineterm="", n=3)
    yield from (line for number, line in enumerate(lines) if number > 1)
