"""The text of a skill that tells an agent how to call the tools of an MCP server."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_MAX_TEXT = 600  # characters of a description; skills are read whole
_SAMPLES = {"string": "…", "number": 1, "integer": 1, "boolean": True, "array": [], "object": {}}


def skill_text(name: str, server: str, description: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the SKILL.md of a server, with its tools by name."""
    lines = [
        "---",
        f"name: {name}",
        f"description: {json.dumps(_one_line(description), ensure_ascii=False)}",
        "---",
        "",
        f"The tools of the MCP server `{server}`. Call one from a shell:",
        "",
        f'    city mcp call {server} TOOL \'{{"argument": "value"}}\'',
        "",
        "The command prints what the tool returns, and exits with 1 if it fails. Pass long",
        "arguments with `--stdin` instead.",
    ]
    for tool in sorted(tools, key=lambda tool: str(tool.get("name"))):
        lines += ["", *_tool(server, tool)]
    return "\n".join(lines) + "\n"


def _tool(server: str, tool: Mapping[str, Any]) -> Iterator[str]:
    name = str(tool.get("name"))
    yield f"## {_one_line(name)}"
    yield ""
    if description := _one_line(tool.get("description")):
        yield description
        yield ""
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    arguments = properties if isinstance(properties, dict) else {}
    listed = schema.get("required") if isinstance(schema, dict) else None
    required = listed if isinstance(listed, list) else []
    for argument, facts in arguments.items():
        yield _argument(argument, facts if isinstance(facts, dict) else {}, argument in required)
    if arguments:
        yield ""
    shown = [argument for argument in arguments if argument in required] or list(arguments)[:1]
    sample = {argument: _sample(arguments[argument]) for argument in shown}
    text = json.dumps(sample, ensure_ascii=False).replace("'", "'\\''")
    yield f"    city mcp call {server} {_one_line(name)}" + (f" '{text}'" if sample else "")


def _argument(name: str, facts: Mapping[str, Any], required: bool) -> str:
    kind = facts.get("type")
    words = [kind] if isinstance(kind, str) else []
    words += ["required"] if required else []
    text = f"- `{_one_line(name)}`" + (f" ({', '.join(words)})" if words else "")
    choices = facts.get("enum")
    if isinstance(choices, list) and choices:
        text += f", one of {', '.join(_one_line(json.dumps(choice)) for choice in choices[:20])}"
    description = _one_line(facts.get("description"))
    return f"{text}: {description}" if description else text


def _sample(facts: object) -> object:
    kind = facts.get("type") if isinstance(facts, dict) else None
    return _SAMPLES.get(kind, "…") if isinstance(kind, str) else "…"


def _one_line(text: object) -> str:
    """Return a text of a server on one line, so that it cannot add headings or front matter."""
    words = " ".join(str(text).split()) if isinstance(text, str) else ""
    words = "".join(char for char in words if char.isprintable())
    return words if len(words) <= _MAX_TEXT else f"{words[: _MAX_TEXT - 1]}…"
