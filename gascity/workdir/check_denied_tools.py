"""Finds tools that a prompt tells the agent to use although its settings deny them.

Tool names are also English words and names of directories, so only what is certainly a tool counts:
a word in backticks beside the word "tool", a name such as `mcp__docs__find`, or one in mixed case
such as `WebFetch`. A sentence that forbids a tool may name it.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from gascity.model.city import Agent, City
from gascity.model.problems import Place, Problem, warning
from gascity.render.flags import HEADLESS
from gascity.render.prompt_text import APPENDED, FRAGMENT, PROMPT, RenderedPrompt
from gascity.render.tool_words import NEUTRAL, ToolSyntax, neutral_names, split_server_tool

_MENTION = re.compile(r"(\btools?[ ]+)?`([\w*/()-]{1,80})`([ ]+tools?\b)?", re.IGNORECASE)
_SERVER_TOOL = re.compile(r"mcp__([\w-]+?)__([\w-]+)")
_MIXED_CASE = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_FORBIDS = re.compile(
    r"\b(not|never|no|without|avoid|cannot|can't|don't|mustn't|instead|rather|denied|forbidden"
    r"|disallowed|unavailable|disabled)\b",
    re.IGNORECASE,
)
_WRITTEN = (PROMPT, FRAGMENT, APPENDED)


def denied_tools(city: City, agent: Agent, prompt: RenderedPrompt) -> Iterator[Problem]:
    """Yield a warning for each denied tool that the agent's own prompt names, once per tool."""
    provider = city.provider_of(agent)
    if provider is None:
        return
    syntax = ToolSyntax(provider, HEADLESS)
    seen: set[str] = set()
    for piece in prompt.pieces:
        if piece.kind not in _WRITTEN or piece.file.startswith("/"):
            continue  # of another program, or of a pack that the user cannot edit
        text = prompt.text[piece.start : piece.end]
        for match in _MENTION.finditer(text):
            word = match[2]
            certain = match[1] or match[3] or _SERVER_TOOL.fullmatch(word)
            if word in seen or not (certain or _MIXED_CASE.fullmatch(word)):
                continue
            rule = _denial(agent, syntax, word)
            if rule and not _FORBIDS.search(_sentence(text, match.start())):
                seen.add(word)
                line = piece.line + text.count("\n", 0, match.start())
                message = f"the prompt names the tool `{word}`, which `{rule}` denies"
                hint = f"remove it from the prompt, or change `{rule}`"
                yield warning("denied-tool", message, Place(piece.file, line=line, col=1), hint)


def _sentence(text: str, at: int) -> str:
    """Return the line around a position, with the line before it: sentences are wrapped."""
    start = text.rfind("\n", 0, at) + 1
    start = text.rfind("\n", 0, max(start - 1, 0)) + 1
    end = text.find("\n", at)
    return text[start : len(text) if end < 0 else end]


def _denial(agent: Agent, syntax: ToolSyntax, word: str) -> str:
    """Return the setting that denies a tool; empty if none does for certain."""
    tools = agent.settings.tools
    server = split_server_tool(word)
    if match := _SERVER_TOOL.fullmatch(word):
        server = (match[1], match[2])
    if server is not None:
        denied = any(_is_server_tool(each, *server) for each in tools.deny)
        return "tools.deny" if denied else ""
    neutral = word if word in NEUTRAL else _neutral_name(syntax, word)
    if not neutral:
        return "tools.deny" if word in tools.deny else ""
    if word in tools.deny or any(neutral in neutral_names(each) for each in tools.deny):
        return "tools.deny"
    allow = tools.allow
    if allow is None or any(_allows(syntax, each, neutral) for each in allow):
        return ""
    return "tools.allow"


def _neutral_name(syntax: ToolSyntax, word: str) -> str:
    return next((name for name, native in syntax.names.items() if native == word), "")


def _allows(syntax: ToolSyntax, word: str, neutral: str) -> bool:
    """Return whether a word of `tools.allow` may mean a tool, or part of it; in doubt it does."""
    if split_server_tool(word) is not None:
        return False
    bare = word.partition("(")[0]
    if bare in NEUTRAL or neutral_names(bare):
        return neutral in neutral_names(bare)
    native = _neutral_name(syntax, bare)
    return native in ("", neutral)


def _is_server_tool(word: str, server: str, tool: str) -> bool:
    pattern = split_server_tool(word)
    if pattern is None:
        return word == f"mcp__{server}__{tool}"
    return fnmatchcase(server, pattern[0]) and fnmatchcase(tool, pattern[1])
