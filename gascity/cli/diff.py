"""Unified diffs of planned steps, with secrets masked."""

import re
from collections.abc import Callable, Iterable, Iterator

from gascity.cli.output import BOLD, CYAN, GREEN, RED, styled, verbatim
from gascity.mcp import documents
from gascity.mcp.servers import launch_value
from gascity.model.city import Agent
from gascity.model.plan import ABSENT, FILE, LINK, Step
from gascity.model.secrets import (
    HIDDEN,
    agent_secrets,
    is_secret,
    mask_secrets,
    masked_line,
    names_in,
    secret_forms,
)
from gascity.workdir.planner import DirectoryPlan, Planner

_PAIR = re.compile(r'("(?P<key>(?:[^"\\]|\\.)+)"\s*:\s*)"(?:[^"\\]|\\.)*"')
_NOT_SHOWN = "(not shown: may contain secrets)"
_COLOURS = {"+": GREEN, "-": RED, "@": CYAN}


def step_diff(planner: Planner, planned: DirectoryPlan, step: Step, colour: bool) -> Iterator[str]:
    """Yield the diff of one step; nothing for a step that keeps a file."""
    change = step.change
    if change is None:
        return
    before = _side(planner, planned, step, after=False)
    after = _side(planner, planned, step, after=True)
    yield styled(f"--- {_name(step, change.expected.kind != ABSENT, 'a')}", BOLD, colour)
    yield styled(f"+++ {_name(step, change.kind != ABSENT, 'b')}", BOLD, colour)
    lines = _changed(before, after, change.mode != change.expected.mode, colour)
    # A link's target is a path, which is shown like other paths; the rest is content.
    yield from lines if LINK in (change.kind, change.expected.kind) else map(verbatim, lines)


def text_diff(path: str, before: bytes | None, after: bytes | None, colour: bool) -> Iterator[str]:
    """Yield the diff between two contents of a file; None for a missing file."""
    yield styled(f"--- {f'a/{path}' if before is not None else '/dev/null'}", BOLD, colour)
    yield styled(f"+++ {f'b/{path}' if after is not None else '/dev/null'}", BOLD, colour)
    old, new = (_text_lines(data or b"", lambda text: text) for data in (before, after))
    yield from map(verbatim, _changed(old, new, False, colour))


def coloured_patch(lines: Iterable[str], colour: bool) -> Iterator[str]:
    """Yield the lines of a patch in the colours of a diff."""
    for line in lines:
        header = line.startswith(("diff ", "index ", "--- ", "+++ "))
        style = (BOLD if header else _COLOURS.get(line[:1], "")) if colour else ""
        yield styled(line, style, True) if style else verbatim(line)


def _changed(
    before: list[str] | None, after: list[str] | None, modes: bool, colour: bool
) -> Iterator[str]:
    if before is None or after is None:
        yield "(not text)"
        return
    if before == after:
        yield "(mode)" if modes else "(only hidden content differs)"
    for line in _unified(before, after):
        style = _COLOURS.get(line[:1], "") if colour else ""
        yield styled(line, style, True) if style else line


def _name(step: Step, there: bool, side: str) -> str:
    return f"{side}/{step.path}" if there else "/dev/null"


def _side(planner: Planner, planned: DirectoryPlan, step: Step, *, after: bool) -> list[str] | None:
    change = step.change
    assert change is not None
    kind = change.kind if after else change.expected.kind
    if kind == LINK:
        return [f"link to {change.target if after else change.expected.target}"]
    if kind != FILE:
        return []
    if not after and not change.expected.mode & 0o077:
        return [_NOT_SHOWN]  # it may hold secrets of an earlier apply, which nothing can mask now
    if not after:
        data = planned.read(step.path)
    elif change.data is not None:
        data = change.data
    else:
        data = planner.file_content(planned.requirements.wanted[step.path])
    return _text_lines(data, lambda text: _hidden(planner, planned, step, text))


def _text_lines(data: bytes, hide: Callable[[str], str]) -> list[str] | None:
    """Return the lines with secrets masked; None for binary data."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # Only at line feeds: a carriage return or a Unicode separator is part of a line, and is shown.
    lines = hide(text).removesuffix("\n").split("\n") if text else []
    return None if "\0" in text else [_masked(line) for line in lines]


def _hidden(planner: Planner, planned: DirectoryPlan, step: Step, text: str) -> str:
    """Mask the secrets of MCP servers and of the agent's environment."""
    wanted = planned.requirements.wanted.get(step.path)
    recorded = planned.ledger.paths.get(step.path)
    shape = (wanted.shape if wanted else None) or (recorded.shape if recorded else None)
    if shape is not None:
        text = documents.hide(text, shape)
    return mask_secrets(text, _secrets(planner, planned))


def _secrets(planner: Planner, planned: DirectoryPlan) -> Iterable[str]:
    secrets: set[str] = set()
    for site in planned.sites:
        secrets.update(agent_secrets(site.agent.settings.env).values())
        secrets |= _variable_values(planner, planned, site.agent)
    for effective in planned.requirements.servers.values():
        for server in effective.servers:
            secrets |= server.secrets
    return {spelling for secret in secrets if len(secret) > 2 for spelling in secret_forms(secret)}


def _variable_values(planner: Planner, planned: DirectoryPlan, agent: Agent) -> set[str]:
    """Return the values of variables in server files: some providers need them written out."""
    effective = planned.requirements.servers.get(str(agent.name))
    value_of = launch_value(agent, planner.environ)
    texts = [
        text
        for server in (effective.servers if effective else ())
        for text in (
            server.command,
            server.url,
            *server.args,
            *server.env.values(),
            *server.headers.values(),
        )
    ]
    return {value_of(name) or "" for text in texts for name in names_in(text)}


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
