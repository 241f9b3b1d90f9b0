"""Unified diffs of planned steps, with secrets masked."""

from collections.abc import Iterable, Iterator

from gascity.cli.output import BOLD, styled, verbatim
from gascity.cli.text_diff import changed_lines, text_lines
from gascity.mcp import documents
from gascity.mcp.servers import launch_value
from gascity.model.city import Agent
from gascity.model.plan import Step
from gascity.model.secrets import agent_secrets, mask_secrets, names_in, secret_forms
from gascity.model.wanted import ABSENT, FILE, LINK
from gascity.workdir.planner import DirectoryPlan, Planner

_NOT_SHOWN = "(not shown: may contain secrets)"


def step_diff(planner: Planner, planned: DirectoryPlan, step: Step, colour: bool) -> Iterator[str]:
    """Yield the diff of one step; nothing for a step that keeps a file."""
    change = step.change
    if change is None:
        return
    before = _side(planner, planned, step, after=False)
    after = _side(planner, planned, step, after=True)
    yield styled(f"--- {_name(step, change.expected.kind != ABSENT, 'a')}", BOLD, colour)
    yield styled(f"+++ {_name(step, change.kind != ABSENT, 'b')}", BOLD, colour)
    lines = changed_lines(before, after, change.mode != change.expected.mode, colour)
    # A link's target is a path, which is shown like other paths; the rest is content.
    yield from lines if LINK in (change.kind, change.expected.kind) else map(verbatim, lines)


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
    return text_lines(data, lambda text: _hidden(planner, planned, step, text))


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
