"""A `profile.md`: one Markdown file that is an agent's settings and its prompt.

Front matter has the identity. Sections (`## `) with fixed names have settings, in one fenced JSON
block each (`Config`, `Tools`, `MCP Servers`); the other sections are the prompt. A heading inside a
fenced block is text, so fences are followed line by line.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gascity.model.front_matter import FrontMatter, read_front_matter

CONFIG, TOOLS, SERVERS, REFLECTION = "Config", "Tools", "MCP Servers", "Reflection"
JSON_SECTIONS = (CONFIG, TOOLS, SERVERS)
ROLE, RULES = "Role", "Rules"
_KNOWN = frozenset((ROLE, RULES, REFLECTION, *JSON_SECTIONS))
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)")
_HEADING = re.compile(r" {0,3}(#{1,2})[ \t]+(.*?)[ \t]*#*[ \t]*$")


class JsonBlock(NamedTuple):
    """A fenced JSON block: its text, and its offset in the file."""

    text: str
    offset: int


class ProfileSection(NamedTuple):
    """A section: its title, the line of its heading, and its text with the offset in the file."""

    title: str
    line: int
    text: str
    offset: int
    blocks: tuple[JsonBlock, ...] = ()

    @property
    def is_known(self) -> bool:
        return self.title in _KNOWN


class Profile(NamedTuple):
    """The parts of a profile. `matter` is None if it has no front matter."""

    matter: FrontMatter | None
    title: str
    title_line: int
    sections: tuple[ProfileSection, ...]

    def section(self, title: str) -> ProfileSection | None:
        return next((section for section in self.sections if section.title == title), None)


def read_profile(text: str) -> Profile:
    """Split a profile into its parts; nothing in it is checked."""
    title, title_line = "", 0
    starts: list[tuple[str, int, int, int]] = []  # title, line, start of the heading, of the text
    blocks: list[JsonBlock] = []
    fence, fence_at = "", -1
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        bare = line.rstrip("\r\n")
        after = offset + len(line)
        mark = _FENCE.match(bare)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                if fence_at >= 0:
                    blocks.append(JsonBlock(text[fence_at:offset], fence_at))
                fence = ""
        elif mark:
            fence, fence_at = mark[1], after if mark[2].strip().lower() == "json" else -1
        elif heading := _HEADING.match(bare):
            if len(heading[1]) == 2:
                starts.append((heading[2], number, offset, after))
            elif not title and not starts:
                title, title_line = heading[2], number
        offset = after
    ends = [*(start for _, _, start, _ in starts[1:]), len(text)][: len(starts)]
    sections = tuple(
        ProfileSection(
            name, line, text[start:end], start, tuple(b for b in blocks if start <= b.offset < end)
        )
        for (name, line, _, start), end in zip(starts, ends, strict=True)
    )
    return Profile(read_front_matter(text), title, title_line, sections)


class ProfilePrompt(NamedTuple):
    """The prompt in a profile, and for each of its lines the line in the file."""

    text: str
    lines: tuple[int, ...]


def profile_prompt(profile: Profile) -> ProfilePrompt:
    """Return the role without its heading, the other text, then the rules with their heading.

    One empty line is between two parts. Settings and the reflection are not part of the prompt.
    """
    out: list[str] = []
    lines: list[int] = []
    for section in _prompt_sections(profile):
        heading = [] if section.title == ROLE else [f"## {section.title}"]
        body = section.text.splitlines()
        first = next((at for at, line in enumerate(body) if line.strip()), len(body))
        last = len(section.text.rstrip().splitlines())
        if out:
            out.append("")
            lines.append(section.line)
        out += heading + body[first:last]
        lines += [section.line] * len(heading)
        lines += range(section.line + 1 + first, section.line + 1 + last)
    return ProfilePrompt("".join(f"{line}\n" for line in out), tuple(lines))


def _prompt_sections(profile: Profile) -> Iterator[ProfileSection]:
    sections = [section for section in profile.sections if section.text.strip()]
    yield from (section for section in sections if section.title == ROLE)
    yield from (section for section in sections if not section.is_known)
    yield from (section for section in sections if section.title == RULES)
