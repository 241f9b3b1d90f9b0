"""A rendered prompt: its text, and the file and line that every piece of it comes from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.problems import Problem

if TYPE_CHECKING:
    from gascity.render.templates import HudText

PROMPT, FRAGMENT, APPENDED, GENERATED = "prompt", "fragment", "appended", "generated"
MEMORY, HUD = "memory", "hud"
BUILTIN_FILE = "built-in"


class PromptPiece(NamedTuple):
    """Characters `start` to `end` of a prompt, and where they come from."""

    start: int
    end: int
    file: str
    line: int
    kind: str


class RenderedPrompt(NamedTuple):
    """A prompt, as far as it could be rendered, and its problems.

    `unrelated` are problems of fragment files that this prompt does not need. `hud` are the HUD
    sections in it.
    """

    text: str
    pieces: tuple[PromptPiece, ...] = ()
    problems: tuple[Problem, ...] = ()
    fragments: frozenset[str] = frozenset()
    unrelated: tuple[Problem, ...] = ()
    hud: "tuple[HudText, ...]" = ()


def plain_prompt(file: str, text: str) -> RenderedPrompt:
    """Return a prompt that is not a template."""
    pieces = (PromptPiece(0, len(text), file, 1, PROMPT),) if text else ()
    return RenderedPrompt(text, pieces)


def moved_lines(prompt: RenderedPrompt, file: str, lines: Sequence[int]) -> RenderedPrompt:
    """Return a prompt whose text is part of a file: `lines` has the file's line of each line."""

    def line_in_file(line: int) -> int:
        return lines[line - 1] if 0 < line <= len(lines) else line

    def moved(problem: Problem) -> Problem:
        place = problem.place
        if place is None or place.file != file or place.line is None:
            return problem
        return problem._replace(place=place._replace(line=line_in_file(place.line)))

    return prompt._replace(
        pieces=tuple(
            piece._replace(line=line_in_file(piece.line)) if piece.file == file else piece
            for piece in prompt.pieces
        ),
        problems=tuple(map(moved, prompt.problems)),
    )
