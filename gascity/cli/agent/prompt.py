"""Rendered prompts: the source of each part and its size."""

from collections.abc import Iterator

from gascity.cli.context import CommandContext, machine
from gascity.cli.output import DIM, Column, printable, styled, table_lines
from gascity.model.city import Agent, City
from gascity.model.problems import Problem, warning
from gascity.pipeline import list_skills, open_city
from gascity.prompts import Prompts
from gascity.render.templates import PromptPiece, RenderedPrompt
from gascity.source.disk import Disk

_EXCERPT = 500
_CHARS_PER_TOKEN = 4


def render(context: CommandContext, city: City, agent: Agent) -> RenderedPrompt:
    """Render the prompt of the agent's first session."""
    disk = Disk(city.root)
    prompts = Prompts(city, disk, machine(), lambda: open_city(city.root, context.environ))
    return prompts.of(agent)


def prompt_json(done: RenderedPrompt) -> dict[str, object]:
    """Return files, hash and length of the prompt; null if it cannot be rendered."""
    from hashlib import sha256

    known = not any(problem.is_error for problem in done.problems)
    files = dict.fromkeys(piece.file for piece in done.pieces)
    return {
        "files": list(files),
        "sha256": sha256(done.text.encode()).hexdigest() if known else None,
        "chars": len(done.text) if known else None,
    }


def spans_json(done: RenderedPrompt) -> list[dict[str, object]]:
    """Return the source of each part of the prompt."""
    return [
        {"start": p.start, "end": p.end, "file": p.file, "line": p.line, "kind": p.kind}
        for p in done.pieces
    ]


def excerpt(agent: Agent, done: RenderedPrompt) -> Iterator[str]:
    """Yield the start of a prompt."""
    file = agent.settings.prompt or "from the description"
    more = (
        f"first {_EXCERPT} of {len(done.text):,} characters, " if len(done.text) > _EXCERPT else ""
    )
    yield f"\nPrompt ({more}{file}):"
    for line in printable(done.text[:_EXCERPT]).rstrip().splitlines():
        yield f"  {line}".rstrip()


def prompt_lines(
    context: CommandContext,
    city: City,
    agent: Agent,
    done: RenderedPrompt,
    rendered: bool,
    budget: bool,
) -> Iterator[str]:
    """Yield the whole prompt under headings with its sources, then its size."""
    for piece in _merged(done) if rendered else ():
        heading = f"── {piece.file}:{piece.line} ({piece.kind}) "
        yield styled(heading + "─" * max(0, context.width - len(heading)), DIM, context.colour)
        yield printable(done.text[piece.start : piece.end]).rstrip("\n")
    if budget:
        yield from _budget_lines(context, city, agent, done)


def _merged(done: RenderedPrompt) -> list[PromptPiece]:
    """Join neighbouring parts of one file; the line is that of the first."""
    joined: list[PromptPiece] = []
    for piece in done.pieces:
        last = joined[-1] if joined else None
        if last is not None and (last.file, last.kind) == (piece.file, piece.kind):
            joined[-1] = PromptPiece(last.start, piece.end, last.file, last.line, last.kind)
        else:
            joined.append(piece)
    return joined


def _tokens(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


def budget_json(city: City, agent: Agent, done: RenderedPrompt) -> dict[str, object]:
    """Return characters and estimated tokens per source, and the provider's limits."""
    sources: dict[tuple[str, str], int] = {}
    for piece in done.pieces:
        key = (piece.file, piece.kind)
        sources[key] = sources.get(key, 0) + piece.end - piece.start
    return {
        "sources": [
            {"file": file, "kind": kind, "chars": chars, "tokens": _tokens(chars)}
            for (file, kind), chars in sources.items()
        ],
        "chars": len(done.text),
        "bytes": len(done.text.encode()),
        "tokens": _tokens(len(done.text)),
        "limits": [
            {"name": name, "limit": limit, "used": used, "over": used > limit}
            for name, limit, used in _limits(city, agent, done)
        ],
    }


def _limits(city: City, agent: Agent, done: RenderedPrompt) -> Iterator[tuple[str, int, int]]:
    provider = city.providers.get(agent.provider)
    if provider is None:
        return
    most = provider.facts.limits.instruction_bytes
    if most is not None:
        yield "instruction bytes", most, len(done.text.encode())
    listing = provider.facts.limits.skill_listing_chars
    if listing is not None:
        skills = [entry.skill for entry in list_skills(city, Disk(city.root), agent)]
        yield "skill listing", listing, sum(len(s.name) + len(s.description) + 4 for s in skills)


def budget_problems(city: City, agent: Agent, done: RenderedPrompt) -> list[Problem]:
    return [
        warning(
            "over-budget",
            f"{name}: {used:,} exceed the limit of {limit:,} of `{agent.provider}`",
            agent.setting("prompt").place,
            "shorten it; the provider cuts off the rest",
        )
        for name, limit, used in _limits(city, agent, done)
        if used > limit
    ]


def _budget_lines(
    context: CommandContext, city: City, agent: Agent, done: RenderedPrompt
) -> Iterator[str]:
    answer = budget_json(city, agent, done)
    sources = answer["sources"]
    rows = list(sources) if isinstance(sources, list) else []
    rows.append({"chars": answer["chars"], "tokens": answer["tokens"], "kind": "", "file": "total"})
    columns: tuple[Column[dict[str, object]], ...] = (
        Column("", lambda row: row["chars"], "CHARS", lambda row: f"{row['chars']:,}"),
        Column("", lambda row: row["tokens"], "TOKENS", lambda row: f"{row['tokens']:,}"),
        Column("", lambda row: row["kind"], "KIND", lambda row: str(row["kind"])),
        Column("", lambda row: row["file"], "SOURCE"),
    )
    yield from table_lines(columns, rows, context.width, context.colour)
    yield f"Tokens are estimated at {_CHARS_PER_TOKEN} characters each."
    for name, limit, used in _limits(city, agent, done):
        yield f"{agent.provider}, {name}: {used:,} of {limit:,}"
