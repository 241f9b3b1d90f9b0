"""`city diff`: the effective changes of agents since a git revision."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from gascity.cli.agent.explain import value_text
from gascity.cli.command import json_command
from gascity.cli.context import CommandContext, agent_option, machine
from gascity.cli.output import BOLD, plural, styled, verbatim
from gascity.cli.problems import Locator
from gascity.cli.text_diff import coloured_patch
from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem
from gascity.model.secrets import mask_secrets, masked
from gascity.model.values import JsonObject

if TYPE_CHECKING:
    from gascity.compare import AgentChange, CityChange, FieldChange, NamedChange, PromptChange
    from gascity.model.city import Agent, City

_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_COMMIT = 12  # characters of a commit's hash in text


@json_command(
    "diff",
    examples=(
        "city diff",
        "city diff main --agent reviewer",
        "city diff v1.2 --markdown > comment.md",
    ),
    page="how-to/review-changes",
)
@click.argument("revision", metavar="[REV]", default="HEAD")
@agent_option()
@click.option("--markdown", is_flag=True, help="Output Markdown, for a pull request comment.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if something changed.")
def diff_city(
    context: CommandContext, revision: str, agent: str | None, markdown: bool, exit_code: bool
) -> int:
    """Show how agents changed since a git revision.

    REV is a commit, a branch or a tag (default: HEAD). Compares settings, prompts, skills, MCP
    servers, overlay files, tools and packs. Reads the revision from git; nothing is checked out or
    fetched.
    """
    from gascity.compare import compare_with
    from gascity.packs.revision import find_revision

    if markdown and context.as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    found = find_revision(context.root, revision, context.environ)
    city = context.city()
    changed = compare_with(city, found, context.environ, machine(), _Selection(city, agent))
    if agent is not None:
        _require_known(city, changed, agent)
    locator = context.locator()

    def answer() -> Mapping[str, object]:
        return {
            "revision": revision,
            "from": found.commit,
            "agents": [_agent_json(change, locator) for change in changed.agents],
            "packs": [
                {**pack._asdict(), "old": pack.old or None, "new": pack.new or None}
                for pack in changed.packs
            ],
            "problems": context.problems_json(_at(revision, changed.problems)),
        }

    def lines() -> Iterator[str]:
        if markdown:
            yield from _markdown(changed, revision, found.commit, locator)
        else:
            yield from _text(context, changed, revision, locator)

    context.output(answer, lines)
    if not context.as_json:
        context.print_problems(_at(revision, changed.problems))
    return int(exit_code and not changed.is_empty)


class _Selection:
    """Selects one agent by name, or all; the name may exist in only one of the two cities."""

    def __init__(self, city: "City", reference: str | None) -> None:
        from gascity.pipeline import find_agent

        found = find_agent(city, reference) if reference is not None else None
        self._name = str(found.name) if found is not None else reference

    def __call__(self, agent: "Agent") -> bool:
        return self._name is None or self._name in (str(agent.name), agent.name.bare)


def _require_known(city: "City", changed: "CityChange", reference: str) -> None:
    """Raise unless the agent exists in the city or did in the revision."""
    from gascity.pipeline import find_agent

    if changed.agents or find_agent(city, reference) is not None:
        return
    hint = did_you_mean(reference, [str(agent.name) for agent in city.agents])
    message = f"there is no agent `{reference}`, now or in the revision"
    raise CityError(Problem("unknown-agent", message, None, hint or None))


def _at(revision: str, problems: Sequence[Problem]) -> list[Problem]:
    """Return problems of the revision without positions: the files may have changed since."""
    return [
        problem._replace(
            message=f"at {revision}: {problem.place.file}: {problem.message}"
            if problem.place
            else f"at {revision}: {problem.message}",
            place=None,
        )
        for problem in problems
    ]


def _agent_json(change: "AgentChange", locator: Locator) -> JsonObject:
    return {
        "name": change.name,
        "change": change.change,
        "fields": [_field_json(field, locator) for field in change.fields],
        "prompt": _prompt_json(change.prompt, change) if change.prompt else None,
        "skills": [skill._asdict() for skill in change.skills],
        "servers": [server._asdict() for server in change.servers],
        "files": [file._asdict() for file in change.files],
        "tools": {"gained": list(change.gained), "lost": list(change.lost)},
    }


def _field_json(field: "FieldChange", locator: Locator) -> JsonObject:
    file, line = _where(field, locator)
    return {
        "name": field.name,
        "old": masked(field.old.value, field.name) if field.old is not None else None,
        "new": masked(field.new.value, field.name) if field.new is not None else None,
        "file": file,
        "line": line,
    }


def _prompt_json(prompt: "PromptChange", change: "AgentChange") -> JsonObject:
    patch = _patch(prompt, change)
    return {
        "added": sum(line[0] == "+" for line in patch),
        "removed": sum(line[0] == "-" for line in patch),
        "diff": "".join(f"{line}\n" for line in patch),
        "spans": [
            {
                "change": span.change,
                "file": span.piece.file,
                "line": span.piece.line,
                "kind": span.piece.kind,
                "text": mask_secrets(span.text, change.secrets),
            }
            for span in prompt.spans
        ],
    }


def _patch(prompt: "PromptChange", change: "AgentChange") -> list[str]:
    """Return a unified diff of the two prompts without file headers, secrets masked."""
    from difflib import unified_diff

    old, new = (
        mask_secrets(text, change.secrets).splitlines() for text in (prompt.old, prompt.new)
    )
    return list(unified_diff(old, new, lineterm="", n=2))[2:]


def _where(field: "FieldChange", locator: Locator) -> tuple[str | None, int | None]:
    """Return file and line of the new value; if it is the default, the file of the old one."""
    if field.new is not None and field.new.place is not None:
        return field.new.place.file, locator.line_col(field.new.place)[0]
    if field.old is not None and field.old.place is not None:
        return field.old.place.file, None
    return None, None


def _text(
    context: CommandContext, changed: "CityChange", revision: str, locator: Locator
) -> Iterator[str]:
    if changed.is_empty:
        yield f"No effective changes since {revision}."
        return
    for change in changed.agents:
        mark = _MARKS[change.change]
        yield styled(f"{mark} {change.name} ({change.change})", BOLD, context.colour)
        yield from (f"    {line}" for line in _change_lines(change, locator))
        if change.prompt is not None:
            yield from coloured_patch(_patch(change.prompt, change), context.colour)
    for pack in changed.packs:
        yield f"pack {pack.binding}: {_moved(pack.old)} -> {_moved(pack.new)} ({pack.source})"
    yield f"{plural(len(changed.agents), 'agent')} changed since {revision}."


def _change_lines(change: "AgentChange", locator: Locator) -> Iterator[str]:
    """Yield one line per change of an agent; the prompt's line is followed by its diff."""
    for field in change.fields:
        file, line = _where(field, locator)
        where = f"{file}:{line}" if line else file
        yield f"{field.name}: {_values(field)}" + (f"  {where}" if where else "")
    for kind, entries in _named_changes(change):
        for entry in entries:
            yield f"{kind} {_MARKS[entry.change]} {entry.name}  {entry.source}".rstrip()
    if change.gained:
        yield f"tools gained: {', '.join(change.gained)}"
    if change.lost:
        yield f"tools lost: {', '.join(change.lost)}"
    if change.prompt is not None:
        files = dict.fromkeys(f"{s.piece.file}:{s.piece.line}" for s in change.prompt.spans)
        yield f"prompt: {', '.join(files)}" if files else "prompt:"


def _values(field: "FieldChange") -> str:
    if field.old is None:
        return value_text(field.new) if field.new is not None else ""
    if field.new is None:
        return value_text(field.old)
    return f"{value_text(field.old)} -> {value_text(field.new)}"


def _named_changes(change: "AgentChange") -> "Iterator[tuple[str, Sequence[NamedChange]]]":
    yield "skill", change.skills
    yield "server", change.servers
    yield "file", change.files


def _moved(commit: str) -> str:
    return commit[:_COMMIT] or "(none)"


def _markdown(changed: "CityChange", revision: str, commit: str, locator: Locator) -> Iterator[str]:
    """Yield a comment for a pull request; prompts are folded."""
    yield f"### Agents changed since `{revision}` ({commit[:_COMMIT]})"
    yield ""
    if changed.is_empty:
        yield "No effective changes."
        return
    for change in changed.agents:
        yield f"#### {_code(change.name)} ({change.change})"
        yield ""
        rows = [_code(line) for line in _change_lines(change, locator)]
        yield from (f"- {row}" for row in rows)
        if change.prompt is not None:
            patch = [verbatim(line) for line in _patch(change.prompt, change)]
            fence = "`" * max(3, 1 + max((_longest_fence(line) for line in patch), default=0))
            yield from ("", "<details><summary>prompt</summary>", "", f"{fence}diff")
            yield from patch
            yield from (fence, "", "</details>")
        yield ""
    for pack in changed.packs:
        moved = f"{_moved(pack.old)} -> {_moved(pack.new)}"
        yield f"- pack {_code(pack.binding)}: {_code(moved)} ({_code(pack.source)})"


def _code(text: str) -> str:
    """Return a text as inline code, whatever backquotes are in it."""
    text = text.replace("\n", " ")
    fence = "`" * (1 + _longest_fence(text))
    space = " " if fence != "`" else ""
    return f"{fence}{space}{text}{space}{fence}"


def _longest_fence(text: str) -> int:
    """Return the length of the longest run of backquotes."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest
