"""Lists of tools are kept as servers send them, and read back unchanged."""

from gascity.mcp.tool_lists import decode_tools, encode_tools


def test_a_list_is_read_back_even_if_its_texts_are_no_valid_unicode() -> None:
    tools = [{"name": "look", "description": "half \ud800, whole 🌊", "inputSchema": {}}]
    assert decode_tools(encode_tools(tools)) == tools
