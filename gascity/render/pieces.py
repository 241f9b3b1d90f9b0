"""The parts of a prompt: what it is made of, what came out, and one that no engine touches."""

from gascity.model.problems import Place, Problem
from gascity.model.records import NamedTuple

PROMPT, FRAGMENT, APPENDED, GENERATED = "prompt", "fragment", "appended", "generated"


class TemplateFile(NamedTuple):
    """A template as read. `lenient` files belong to packs their user cannot mend."""

    file: str
    text: str
    lenient: bool = False

    @property
    def stem(self) -> str:
        name = self.file.rpartition("/")[2]
        for suffix in (".template.md", ".md.tmpl"):
            name = name.removesuffix(suffix)
        return name


class Piece(NamedTuple):
    """Characters `start` to `end` of a text, and who wrote them."""

    start: int
    end: int
    file: str
    line: int
    kind: str


class Rendered(NamedTuple):
    """A prompt, or as much of it as there is beside its problems."""

    text: str
    pieces: tuple[Piece, ...] = ()
    problems: tuple[Problem, ...] = ()
    fragments: frozenset[str] = frozenset()
    aside: tuple[Problem, ...] = ()  # faults of fragment files that this text does without


class Appended(NamedTuple):
    """A fragment to be put at the end, and the setting that asks for it."""

    name: str
    place: Place | None
    lenient: bool = False


def plain_prompt(file: str, text: str) -> Rendered:
    """A prompt that no engine has touched."""
    return Rendered(text, whole(text, file, PROMPT))


def whole(text: str, file: str, kind: str) -> tuple[Piece, ...]:
    return (Piece(0, len(text), file, 1, kind),) if text else ()
