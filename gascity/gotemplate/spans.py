"""The output of a rendering: pieces of text that know where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gascity.gotemplate.records import Frozen, put
from gascity.gotemplate.values import readable, to_bytes


class Span(Frozen):
    """A piece of output; `file`, `line` and `name` are those of the text or action that wrote it.

    `name` is the template or fragment; `line` is the first one if the piece has several.
    """

    __slots__ = ("file", "line", "name", "text")
    text: str
    file: str
    line: int
    name: str

    def __init__(self, text: str, file: str, line: int, name: str) -> None:
        put(self, "text", text)
        put(self, "file", file)
        put(self, "line", line)
        put(self, "name", name)


class Included(str):
    """The text of a fragment as a value, which still knows its spans."""

    __slots__ = ("spans",)
    spans: tuple[Span, ...]

    def __new__(cls, spans: Sequence[Span]) -> Included:
        text = super().__new__(cls, "".join([span.text for span in spans]))
        text.spans = tuple(spans)
        return text


def mended(spans: list[Span]) -> list[Span]:
    """Return the spans with every byte that is not UTF-8 as U+FFFD.

    A character whose bytes were written by two spans goes whole to the first of them.
    """
    whole = "".join([span.text for span in spans])
    if whole.isascii():
        return spans
    try:
        whole.encode()
    except UnicodeEncodeError:
        return _recut(spans)
    return spans


def _recut(spans: list[Span]) -> list[Span]:
    pieces = [to_bytes(span.text) for span in spans]
    whole = b"".join(pieces)
    cuts, end = [0], 0
    for piece in pieces:
        end += len(piece)
        cut = max(end, cuts[-1])
        while cut < len(whole) and 0x80 <= whole[cut] < 0xC0:
            cut += 1
        cuts.append(cut)
    texts = [readable(whole[a:b].decode("utf-8", "surrogateescape")) for a, b in pairwise(cuts)]
    return [Span(t, s.file, s.line, s.name) for t, s in zip(texts, spans, strict=True) if t]
