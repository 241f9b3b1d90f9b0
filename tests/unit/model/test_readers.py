"""Every setting has a reader, or a reason why it has none.

The tables name the module that acts on each field, and the expression with which it reads it. The
tests look for that expression in the module, so an entry cannot outlive its reader.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import gascity
from gascity.model import tables
from gascity.model.fields import AGENT, Table
from gascity.model.ignored_keys import AGENT_IGNORED, OTHER_IGNORED, PROVIDER_IGNORED

PACKAGE = Path(gascity.__file__).parent

# Field → `module:expression`; several if a module passes the whole table to another one. A name in
# quotes is read by its key.
AGENT_READERS = {
    "description": "render/variables.py:settings.description",
    "display_name": "render/variables.py:settings.display_name",
    "provider": 'compose/city.py:"provider"',
    "model": "render/flags.py:settings.model",
    "prompt": "prompts.py:settings.prompt",
    "mode": "render/variables.py:settings.mode",
    "hidden": "render/variables.py:settings.hidden",
    "scope": "compose/city.py:settings.scope",
    "rigs": "compose/city.py:settings.rigs",
    "dir": "compose/city.py:settings.dir",
    "type": "pipeline.py:settings.type",
    "suspended": "control/blocked.py:settings.suspended",
    "depends_on": "control/run_config.py:settings.depends_on",
    "min_active_sessions": "control/run_config.py:settings.min_active_sessions",
    "max_active_sessions": "control/run_config.py:settings.max_active_sessions",
    "max_active_total": "control/run_config.py:settings.max_active_total",
    "namepool": "control/run_config.py:settings.namepool",
    "idle_timeout": "control/run_config.py:settings.idle_timeout",
    "sleep_after_idle": "control/run_config.py:settings.sleep_after_idle",
    "drain_timeout": "control/run_config.py:settings.drain_timeout",
    "wake_mode": "control/run_config.py:settings.wake_mode",
    "wake_on_mail": "control/run_config.py:settings.wake_on_mail",
    "execution": "control/blocked.py:settings.execution",
    "session_state": "cli/agent/list.py:settings.session_state",
    "isolation": "location.py:settings.isolation",
    "work_dir": "workdir/planner.py:settings.work_dir",
    "runtime": "control/run_config.py:settings.runtime",
    "session": "control/run_config.py:settings.session",
    "attach": "cli/session/start.py:settings.attach",
    "overlay_dir": "workdir/overlays.py:settings.overlay_dir",
    "overlay_tracked": "workdir/planner.py:settings.overlay_tracked",
    "append_fragments": "prompts.py:settings.append_fragments",
    "hud": "hud/sections.py:settings.hud",
    "nudge": "control/start.py:settings.nudge",
    "env": "render/variables.py:settings.env",
    "default_sling_formula": "compose/checks.py:settings.default_sling_formula",
    "option_defaults": "render/flags.py:settings.option_defaults",
    "options": "render/agent_files.py:settings.options",
    "temperature": 'render/agent_files.py:"temperature"',
    "top_p": 'render/agent_files.py:"top_p"',
    "steps": "render/flags.py:settings.steps",
    "variant": "render/flags.py:settings.variant",
    "color": 'render/agent_files.py:"color"',
    "native_subagents": "workdir/agent_files.py:settings.native_subagents",
    "tools.allow": "render/flags.py:tools.allow",
    "tools.deny": "render/flags.py:tools.deny",
    "tools.ask": "render/flags.py:tools.ask",
    "tools.exposure": "workdir/wanted.py:settings.tools.exposure",
    "capabilities.allow": "render/tool_scope.py:settings.capabilities.allow",
    "capabilities.deny": "render/tool_scope.py:settings.capabilities.deny",
    "skills_filter.allow": "pipeline.py:settings.skills_filter model/names.py:filter.allow",
    "skills_filter.deny": "pipeline.py:settings.skills_filter model/names.py:filter.deny",
    "mcp_filter.allow": "mcp/servers.py:settings.mcp_filter model/names.py:filter.allow",
    "mcp_filter.deny": "mcp/servers.py:settings.mcp_filter model/names.py:filter.deny",
    "agents_filter.allow": "control/enqueue.py:settings.agents_filter model/names.py:filter.allow",
    "agents_filter.deny": "control/enqueue.py:settings.agents_filter model/names.py:filter.deny",
    "limits.timeout": "control/run_config.py:settings.limits.timeout",
    "limits.max_attempts": "control/decide/outcome.py:limits.max_attempts",
    "limits.retries": "control/decide/outcome.py:limits.retries",
    "limits.log_bytes": "control/housekeeping.py:limits.log_bytes",
    "limits.cost_per_item": "control/blocked.py:limits.cost_per_item",
    "limits.cost_per_day": "control/blocked.py:limits.cost_per_day",
    "limits.delegation_depth": "control/enqueue.py:settings.limits.delegation_depth",
    "limits.delegation_budget": "control/enqueue.py:settings.limits.delegation_budget",
    "reflection": "control/reflection.py:settings.reflection",
    "limits.reflection_timeout": "control/observe.py:limits.reflection_timeout",
    "limits.memory_chars": "prompts.py:settings.limits.memory_chars",
    "limits.delegation_self": "control/enqueue.py:settings.limits.delegation_self",
    "start_command": "control/blocked.py:settings.start_command",
    "args": "render/flags.py:settings.args",
    "prompt_mode": "render/argv.py:settings.prompt_mode",
    "prompt_flag": "render/argv.py:settings.prompt_flag",
    "ready_delay_ms": "control/terminals.py:settings.ready_delay_ms",
    "ready_prompt_prefix": "render/terminal.py:settings.ready_prompt_prefix",
    "resume_command": "render/argv.py:settings.resume_command",
    "pre_start": "control/launch.py:settings.pre_start",
    "session_setup": "control/launch.py:settings.session_setup",
    "session_setup_script": "control/launch.py:settings.session_setup_script",
    "session_live": "control/launch.py:settings.session_live",
}
READERS = {
    "agent": AGENT_READERS,
    "workspace": {
        "name": "compose/city.py:workspace.name",
        "provider": "compose/city.py:workspace.provider",
        "prefix": "control/run_config.py:workspace.prefix",
        "env": "control/launch.py:workspace.env",
        "max_active_sessions": "control/run_config.py:workspace.max_active_sessions",
        "cost_per_day": "control/run_config.py:workspace.cost_per_day",
        "suspended_on_start": "control/blocked.py:workspace.suspended_on_start",
    },
    "session": {
        "runtime": "control/run_config.py:session.runtime",
        "startup_timeout": "control/start.py:session.startup_timeout",
        "setup_timeout": "control/launch.py:session.setup_timeout",
        "shutdown_timeout": "control/loop.py:session.shutdown_timeout",
    },
    "security": {
        "require_enforcement": "render/flags.py:security.require_enforcement",
        "gateway": "mcp/servers.py:security.gateway",
    },
    "notify": {
        "on": "control/notify.py:settings.on",
        "command": "control/notify.py:settings.command",
        "desktop": "control/notify.py:settings.desktop",
        "webhook": "control/notify.py:settings.webhook",
        "min_interval": "control/notify.py:settings.min_interval",
    },
    "rig": {
        "name": "source/manifest.py:name",
        "path": "source/load.py:path",
        "prefix": "compose/city.py:settings.prefix",
        "default_branch": "render/variables.py:settings.default_branch",
        "max_active_sessions": "control/run_config.py:settings.max_active_sessions",
        "cost_per_day": "control/run_config.py:settings.cost_per_day",
        "suspended_on_start": "control/blocked.py:settings.suspended_on_start",
    },
    "import": {
        "source": "source/imports.py:settings.source",
        "version": "source/imports.py:settings.version",
        "share": "compose/asset_dirs.py:settings.share",
        "templates": "compose/asset_dirs.py:settings.templates",
    },
    "named_session": {
        "template": "control/run_config.py:settings.template",
        "name": "control/run_config.py:settings.name",
        "mode": "control/run_config.py:settings.mode",
        "scope": "compose/city.py:settings.scope",
        "dir": "control/run_config.py:settings.dir",
    },
    "mcp": {
        "name": "mcp/server_files.py:definition.name",
        "description": "mcp/server_files.py:definition.description",
        "transport": "mcp/server_files.py:definition.transport",
        "command": "mcp/server_files.py:definition.command",
        "args": "mcp/server_files.py:definition.args",
        "env": "mcp/server_files.py:definition.env",
        "url": "mcp/server_files.py:definition.url",
        "headers": "mcp/server_files.py:definition.headers",
        "gateway": "mcp/server_files.py:definition.gateway",
        "capabilities": "mcp/server_files.py:definition.capabilities",
        "tools": "mcp/server_files.py:definition.tools",
        "timeout": "mcp/server_files.py:definition.timeout",
        "session": "mcp/server_files.py:definition.session",
    },
}
TABLES = {
    "agent": AGENT,
    "workspace": tables.WORKSPACE,
    "session": tables.SESSION,
    "security": tables.SECURITY,
    "notify": tables.NOTIFY,
    "rig": tables.RIG,
    "import": tables.IMPORT,
    "named_session": tables.NAMED_SESSION,
    "mcp": tables.MCP_SERVER,
}
IGNORED = {"agent": AGENT_IGNORED, **OTHER_IGNORED}

# Facts of providers are read in the package that knows their table.
PROVIDER_PACKAGES = {
    "": ("control", "render", "model", "workdir", "compose", "cli"),
    "headless": ("render", "control"),
    "overlay": ("workdir",),
    "skills": ("workdir",),
    "agents": ("providers", "render", "workdir"),
    "project": ("workdir",),
    "mcp": ("mcp", "workdir", "render"),
    "trust": ("mcp", "control"),
    "login": ("control",),
    "tools": ("render",),
    "terminal": ("render", "control"),
    "conversation": ("render", "control", "workdir"),
    "limits": ("cli", "control", "hud"),
    "listing": ("providers", "cli"),
}
# Read by key: they shape the provider itself, or are read in a loop.
PROVIDER_KEYS = {
    "base": "compose/providers.py",
    **dict.fromkeys(
        [f"terminal.{part}" for part in "before after above below below2 below3".split()],
        "render/terminal.py",
    ),
    "options_schema": "compose/providers.py",
    "options_schema_merge": "compose/providers.py",
}


@cache
def expressions(module: str) -> frozenset[str]:
    """Return the attribute expressions and strings in a module."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / module).read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(f'"{node.value}"')
    return frozenset(found)


def reads(module: str, expression: str) -> bool:
    found = expressions(module)
    return expression in found or any(each.endswith(f".{expression}") for each in found)


@cache
def attributes(package: str) -> frozenset[str]:
    """Return the names of all attributes that the modules of a package read."""
    modules = (PACKAGE / package).rglob("*.py")
    names = {each for m in modules for each in expressions(str(m.relative_to(PACKAGE)))}
    return frozenset(name.rpartition(".")[2] for name in names if not name.startswith('"'))


@pytest.mark.parametrize("name", TABLES)
def test_each_field_has_a_reader_or_a_reason(name: str) -> None:
    table: Table = TABLES[name]
    ignored = IGNORED.get(name, {})
    assert not set(READERS[name]) & set(ignored)
    assert set(table.fields) == {*READERS[name], *ignored}


@pytest.mark.parametrize("name", READERS)
def test_each_reader_reads_its_field(name: str) -> None:
    for field, readers in READERS[name].items():
        for reader in readers.split():
            module, _, expression = reader.partition(":")
            assert reads(module, expression), (field, reader)


def test_no_ignored_setting_of_an_agent_has_a_reader_after_all() -> None:
    records = ("settings.", "tools.", "capabilities.")
    # The permissions of sessions read only the words of `capabilities` that begin with `city.`.
    not_readers = ("settings.py", "fingerprint.py", "permissions.py")
    modules = [m for m in PACKAGE.rglob("*.py") if m.name not in not_readers]
    for field in AGENT_IGNORED:
        last = field.rpartition(".")[2]
        table = field.partition(".")[0] if "." in field else "settings"
        assert f"{table}." in records
        readers = [m for m in modules if reads(str(m.relative_to(PACKAGE)), f"{table}.{last}")]
        assert not readers, (field, readers)


@pytest.mark.parametrize("field", tables.PROVIDER.fields)
def test_each_fact_of_a_provider_has_a_reader_or_a_reason(field: str) -> None:
    if field in PROVIDER_IGNORED:
        return
    if field in PROVIDER_KEYS:
        assert reads(PROVIDER_KEYS[field], f'"{field.rpartition(".")[2]}"')
        return
    packages = PROVIDER_PACKAGES[field.partition(".")[0] if "." in field else ""]
    assert any(field.rpartition(".")[2] in attributes(package) for package in packages)
