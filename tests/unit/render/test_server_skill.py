"""The skill that describes the tools of a server."""

from gascity.render.server_skill import skill_text

TOOLS = [
    {
        "name": "find",
        "description": "Find a page.\n\n# Not a heading\n---\n",
        "inputSchema": {
            "properties": {
                "text": {"type": "string", "description": "What to\nfind."},
                "kind": {"enum": ["page", "word"]},
                "it's": 3,
            },
            "required": ["text", "it's"],
        },
    },
    {"name": "drop", "inputSchema": None},
]


def test_a_skill_has_each_tool_with_its_arguments_and_a_command() -> None:
    text = skill_text("mcp-docs", "docs", 'Finds "pages".', TOOLS)
    assert text.startswith('---\nname: mcp-docs\ndescription: "Finds \\"pages\\"."\n---\n')
    assert text.index("## drop") < text.index("## find")
    assert "Find a page. # Not a heading ---\n" in text
    assert "- `text` (string, required): What to find.\n" in text
    assert '- `kind`, one of "page", "word"\n' in text
    assert """city mcp call docs find '{"text": "…", "it'\\''s": "…"}'\n""" in text
    assert "    city mcp call docs drop\n" in text


def test_text_of_a_server_cannot_add_lines_or_grow_without_limit() -> None:
    tools = [{"name": "a\nb", "description": "x" * 10_000 + "\u2028\x1b[31m", "inputSchema": []}]
    text = skill_text("mcp-docs", "docs", "d\n---\nevil: 1", tools)
    assert text.count("---\n") == 2
    assert len(text) < 1500
    assert "\x1b" not in text
