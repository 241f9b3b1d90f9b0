"""A repository with the files that coding agents read in a project by themselves."""

SKILL = "---\nname: {0}\ndescription: About {0}.\n---\nDo it.\n"
AGENT = "---\nname: {0}\ndescription: Reviews.\n---\nReview.\n"
JSON_SERVER = (
    '{\n  "mcpServers": {\n    "tracker": {"command": "tracker", "args": ["serve"]}\n  }\n}\n'
)
OPENCODE = (
    '{\n  // ours\n  "mcp": {\n'
    '    "tracker": {"type": "local", "command": ["tracker", "serve"]}\n  }\n}\n'
)
TOML_SERVER = 'model = "x"\n\n[mcp_servers.tracker]\ncommand = "tracker"\nargs = ["serve"]\n'

# Files of all tools together, as a repository has them whose team uses several.
TYPICAL: dict[str, str] = {
    "README.md": "A project.\n",
    "AGENTS.md": "Be careful.\n",
    "AGENTS.override.md": "Be more careful.\n",
    "CLAUDE.md": "Be careful, Claude.\n",
    "CLAUDE.local.md": "Mine.\n",
    "GEMINI.md": "Be careful, Gemini.\n",
    "QWEN.md": "Be careful, Qwen.\n",
    ".goosehints": "Be careful, goose.\n",
    ".cursorrules": "Old rules.\n",
    ".clinerules/style.md": "Style.\n",
    ".claude/CLAUDE.md": "More.\n",
    ".claude/agents/review.md": AGENT.format("reviewer"),
    ".claude/agents/deep/er.md": AGENT.format("deeper"),
    ".claude/commands/ship/it.md": "Ship it.\n",
    ".claude/rules/tests.md": "Test.\n",
    ".claude/settings.json": '{"model": "opus"}\n',
    ".claude/skills/notes/SKILL.md": SKILL.format("notes"),
    ".mcp.json": JSON_SERVER,
    ".agents/skills/notes/SKILL.md": SKILL.format("notes"),
    ".agents/skills/tides/SKILL.md": SKILL.format("tides"),
    ".codex/agents/review.toml": 'description = "Reviews."\nname = "reviewer"\n',
    ".codex/config.toml": TOML_SERVER,
    ".codex/skills/tides/SKILL.md": SKILL.format("tides"),
    ".cursor/agents/review.md": AGENT.format("reviewer"),
    ".cursor/cli.json": "{}\n",
    ".cursor/commands/ship.md": "Ship.\n",
    ".cursor/mcp.json": JSON_SERVER,
    ".cursor/rules/style.mdc": "Style.\n",
    ".factory/droids/review.md": AGENT.format("reviewer"),
    ".factory/mcp.json": JSON_SERVER,
    ".gemini/agents/review.md": AGENT.format("reviewer"),
    ".gemini/commands/ship.toml": 'prompt = "Ship."\n',
    ".gemini/settings.json": JSON_SERVER,
    ".gemini/skills/tides/SKILL.md": SKILL.format("tides"),
    ".github/agents/review.agent.md": AGENT.format("Reviewer"),
    ".github/copilot-instructions.md": "Be careful, Copilot.\n",
    ".github/instructions/tests.instructions.md": "Test.\n",
    ".github/mcp.json": JSON_SERVER,
    ".github/skills/notes/SKILL.md": SKILL.format("notes"),
    ".grok/config.toml": TOML_SERVER,
    ".kilo/kilo.json": OPENCODE,
    ".kilocode/agents/review.md": AGENT.format("reviewer"),
    ".kiro/agents/review.json": '{\n  "description": "Reviews.",\n  "name": "reviewer"\n}\n',
    ".kiro/settings/mcp.json": JSON_SERVER,
    ".kiro/steering/product.md": "Product.\n",
    ".opencode/agent/review.md": "---\ndescription: Reviews.\n---\nReview.\n",
    ".opencode/agents/plan.md": "---\ndescription: Plans.\n---\nPlan.\n",
    ".opencode/opencode.json": OPENCODE,
    ".qwen/settings.json": JSON_SERVER,
    ".vibe/config.toml": '[[mcp_servers]]\nname = "tracker"\ncommand = "tracker"\n',
    ".vscode/mcp.json": '{"servers": {"tracker": {"command": "tracker"}}}\n',
    "opencode.json": OPENCODE,
}
