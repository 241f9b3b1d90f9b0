"""Prompts as `agent show` shows them: where each part comes from, and what it costs."""

from collections.abc import Iterator

from gascity.cli.context import Context, machine
from gascity.cli.output import BOLD, DIM, clean, paint, table
from gascity.model.city import Agent, City
from gascity.model.problems import Problem, warning
from gascity.pipeline import list_skills, open_city
from gascity.prompts import Prompts
from gascity.render.pieces import Piece, Rendered
from gascity.source.disk import Disk

_SHOWN = 500
_CHARS_PER_TOKEN = 4


def render(context: Context, city: City, agent: Agent) -> Rendered:
    """What the agent's first session would be told."""
    disk = Disk(city.root)
    prompts = Prompts(city, disk, machine(), lambda: open_city(city.root, context.environ))
    return prompts.of(agent)


def prompt_json(done: Rendered) -> dict[str, object]:
    """Files, hash and length of what `emit` prints; null where it prints nothing."""
    from gascity.model.hashes import sha256_of

    known = not any(problem.is_error for problem in done.problems)
    files = dict.fromkeys(piece.file for piece in done.pieces)
    return {
        "files": list(files),
        "sha256": sha256_of(done.text.encode()) if known else None,
        "chars": len(done.text) if known else None,
    }


def spans_json(done: Rendered) -> list[dict[str, object]]:
    return [
        {"start": p.start, "end": p.end, "file": p.file, "line": p.line, "kind": p.kind}
        for p in done.pieces
    ]


def beginning(agent: Agent, done: Rendered) -> Iterator[str]:
    """The first characters of a prompt, for people."""
    file = agent.text("prompt") or "made of its description"
    more = f"first {_SHOWN} of {len(done.text):,} characters, " if len(done.text) > _SHOWN else ""
    yield f"\nPrompt ({more}{file}):"
    for line in clean(done.text[:_SHOWN]).rstrip().splitlines():
        yield f"  {line}".rstrip()


def prompt_lines(
    context: Context, city: City, agent: Agent, done: Rendered, rendered: bool, budget: bool
) -> Iterator[str]:
    """The whole prompt under headings that name its sources; the costs after it."""
    for piece in merged(done) if rendered else ():
        heading = f"── {piece.file}:{piece.line} ({piece.kind}) "
        yield paint(heading + "─" * max(0, context.width - len(heading)), DIM, context.colour)
        yield clean(done.text[piece.start : piece.end]).rstrip("\n")
    if budget:
        yield from _budget_lines(context, city, agent, done)


def merged(done: Rendered) -> list[Piece]:
    """Neighbouring pieces of one file as one, beginning at the line of the first."""
    found: list[Piece] = []
    for piece in done.pieces:
        last = found[-1] if found else None
        if last is not None and (last.file, last.kind) == (piece.file, piece.kind):
            found[-1] = Piece(last.start, piece.end, last.file, last.line, last.kind)
        else:
            found.append(piece)
    return found


def _tokens(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


def budget_json(city: City, agent: Agent, done: Rendered) -> dict[str, object]:
    """Characters and estimated tokens by source, and what the provider allows."""
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


def _limits(city: City, agent: Agent, done: Rendered) -> Iterator[tuple[str, int, int]]:
    provider = city.providers.get(agent.provider)
    if provider is None:
        return
    most = provider.value("limits.instruction_bytes")
    if isinstance(most, int):
        yield "instruction bytes", most, len(done.text.encode())
    listing = provider.value("limits.skill_listing_chars")
    if isinstance(listing, int):
        skills = [one.skill for one in list_skills(city, Disk(city.root), agent)]
        yield "skill listing", listing, sum(len(s.name) + len(s.description) + 4 for s in skills)


def budget_problems(city: City, agent: Agent, done: Rendered) -> list[Problem]:
    return [
        warning(
            "over-budget",
            f"{name}: {used:,} are more than the {limit:,} that `{agent.provider}` reads",
            agent.setting("prompt").place,
            "shorten it: what is past the limit is cut off",
        )
        for name, limit, used in _limits(city, agent, done)
        if used > limit
    ]


def _budget_lines(context: Context, city: City, agent: Agent, done: Rendered) -> Iterator[str]:
    answer = budget_json(city, agent, done)
    sources = answer["sources"]
    rows = [
        [f"{one['chars']:,}", f"{one['tokens']:,}", one["kind"], one["file"]]
        for one in (sources if isinstance(sources, list) else ())
    ]
    rows.append([f"{answer['chars']:,}", f"{answer['tokens']:,}", "", "in all"])
    lines = table(rows, ("CHARS", "TOKENS", "KIND", "SOURCE"), context.width)
    yield paint(lines[0], BOLD, context.colour)
    yield from lines[1:]
    yield f"Tokens are estimated: {_CHARS_PER_TOKEN} characters each."
    for name, limit, used in _limits(city, agent, done):
        yield f"{agent.provider}, {name}: {used:,} of {limit:,}"
