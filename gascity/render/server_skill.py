"""The text of a skill that tells an agent how to call the tools of an MCP server."""

import json
from collections.abc import Iterator, Mapping, Sequence

from gascity.model.values import TableView, as_list

_MAX_TEXT = 600  # characters of a description; skills are read whole
_SAMPLES = {"string": "…", "number": 1, "integer": 1, "boolean": True, "array": [], "object": {}}


def skill_text(
    name: str, server: str, description: str, tools: Sequence[Mapping[str, object]]
) -> str:
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
        lines += ["", *_tool(server, TableView(tool))]
    return "\n".join(lines) + "\n"


def _tool(server: str, tool: TableView) -> Iterator[str]:
    name = str(tool.values.get("name"))
    yield f"## {_one_line(name)}"
    yield ""
    if description := _one_line(tool.text("description")):
        yield description
        yield ""
    schema = tool.inner("inputSchema")
    properties = schema.inner("properties").values
    arguments = {name: TableView(facts) for name, facts in properties.items()}
    required = as_list(schema.values.get("required"))
    for argument, facts in arguments.items():
        yield _argument(argument, facts, argument in required)
    if arguments:
        yield ""
    shown = [argument for argument in arguments if argument in required] or list(arguments)[:1]
    sample = {name: _SAMPLES.get(arguments[name].text("type"), "…") for name in shown}
    text = json.dumps(sample, ensure_ascii=False).replace("'", "'\\''")
    yield f"    city mcp call {server} {_one_line(name)}" + (f" '{text}'" if sample else "")


def _argument(name: str, facts: TableView, required: bool) -> str:
    words = [facts.text("type"), "required" if required else ""]
    words = [word for word in words if word]
    text = f"- `{_one_line(name)}`" + (f" ({', '.join(words)})" if words else "")
    if choices := as_list(facts.values.get("enum")):
        text += f", one of {', '.join(_one_line(json.dumps(choice)) for choice in choices[:20])}"
    description = _one_line(facts.text("description"))
    return f"{text}: {description}" if description else text


def _one_line(text: str) -> str:
    """Return a text of a server on one line, so that it cannot add headings or front matter."""
    words = "".join(char for char in " ".join(text.split()) if char.isprintable())
    return words if len(words) <= _MAX_TEXT else f"{words[: _MAX_TEXT - 1]}…"
