"""City tools: what `city mcp serve` lets agents do through MCP, and for whom.

`table` lists the tools, `scope` says which of them a caller may use, `server` connects both to the
protocol. To add a tool, add its entry to `table.TOOLS`.
"""
