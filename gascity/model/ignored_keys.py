"""Known keys of published packs that have no effect, each with the reason.

Each gives one warning per pack.
"""

from collections.abc import Mapping

AGENT_NOT_ACTED_ON: Mapping[str, str] = {
    "fallback": "it only gives way to an agent of its name in the same import",
    "skills": "use [skills_filter]",
    "mcp": "use [mcp_filter]",
    "pool": "use min_active_sessions and max_active_sessions",
    "rig_filter": "use rigs",
    "install_agent_hooks": "hooks come from the provider's overlay",
    "install_hooks": "hooks come from the provider's overlay",
    "hooks_installed": "hooks come from the provider's overlay",
    "inject_assigned_skills": "append the fragment `skills`",
    "interests": "it is not used",
    "upstream": "set the endpoint in env",
    "tmux_alias": "sessions are named after their agent",
    "mouse_mode": "set it in your own tmux configuration",
    "max_session_age": "sessions restart when their definition changes",
    "max_session_age_jitter": "sessions restart when their definition changes",
    "assigned_work_defer_limit": "a busy session is never stopped as idle",
    "work_dir_roots": "work_dir may be anywhere outside .git",
    "work_query": "work comes from the city's queue",
    "sling_query": "work comes from the city's queue",
    "scale_check": "pools scale with their queue",
    "on_boot": "use pre_start",
    "on_death": "no command runs when a session ends",
    "emits_permission_warning": "readiness is detected by ready_prompt_prefix",
    "install_agent_hooks_append": "hooks come from the provider's overlay",
    "skills_append": "use [skills_filter]",
    "mcp_append": "use [mcp_filter]",
    "allow_overlay": "overlays come from the directory tree",
    "allow_env_override": "env comes from the layers",
    "max_start_failures": "use limits.max_attempts",
    "account": "set the account in env",
}
PROVIDER_NOT_ACTED_ON: Mapping[str, str] = {
    "title_model": "titles come from the work",
    "permission_modes": "use options_schema",
    "emits_permission_warning": "readiness is detected by ready_prompt_prefix",
    "accept_startup_dialogs": "startup dialogs are skipped by launch flags",
    "acp_args": "sessions use the provider's own command line",
    "acp_command": "sessions use the provider's own command line",
    "supports_acp": "sessions use the provider's own command line",
    "upstream_env": "set the endpoint in env",
}
_OTHER = "city does not support it"
_STORE = "city keeps work, mail and events in its own store"
_NO_SERVER = "there is no HTTP server"
CITY_NOT_ACTED_ON: Mapping[str, str] = {
    "api": _NO_SERVER,
    "backend_plugins": _STORE,
    "beads": _STORE,
    "chat_sessions": "use sleep_after_idle in [agent_defaults]",
    "commands": "a command is a folder in commands/",
    "convergence": _OTHER,
    "daemon": "the controller has no such settings",
    "doctor": "a check is a folder in doctor/",
    "dolt": _STORE,
    "events": _STORE,
    "extmsg": _OTHER,
    "formulas": "a formula is a file in formulas/",
    "github": _OTHER,
    "global": "use session_live in [agent_defaults]",
    "mail": _STORE,
    "maintenance": _STORE,
    "order_defaults": "orders are not run",
    "orders": "orders are not run",
    "packs": "use [imports]",
    "pricing": "costs are reported by the providers",
    "runtimes": "runtimes are installed as packages",
    "service": _NO_SERVER,
    "session_sleep": "use sleep_after_idle in [agent_defaults]",
    "storage": _STORE,
    "upstreams": "set the endpoint in a provider's env",
    "usage": _STORE,
    "webhook": _NO_SERVER,
    "webhooks": _NO_SERVER,
}
PACK_FILE_NOT_ACTED_ON: Mapping[str, str] = {
    **CITY_NOT_ACTED_ON,
    "defaults": "[defaults.rig.imports] belongs in city.toml",
}
WORKSPACE_NOT_ACTED_ON: Mapping[str, str] = {
    "includes": "use [imports], as `city migrate` does",
    "default_rig_includes": "use [defaults.rig.imports], as `city migrate` does",
    "global_fragments": "use append_fragments in [agent_defaults], as `city migrate` does",
    "install_agent_hooks": "hooks come from the provider's overlay",
    "isolation": "set isolation in [agent_defaults]",
    "start_command": "set start_command in [agent_defaults]",
    "color": "it is not used",
    "session_template": "sessions are named after their agent",
    "suspended": "use suspended_on_start of rigs, or suspended of agents",
    "suspended_on_start": "use suspended_on_start of rigs, or suspended of agents",
    "timezone": "orders are not run",
}
RIG_NOT_ACTED_ON: Mapping[str, str] = {
    "includes": "use [rigs.imports], as `city migrate` does",
    "default_sling_target": "`city sling` names its agent",
    "default_sling_targets": "`city sling` names its agent",
    "dolt_host": _STORE,
    "dolt_port": _STORE,
    "formula_vars": "formulas are not run",
    "formulas_dir": "formulas are not run",
    "session_sleep": "use sleep_after_idle in [[rigs.patches]]",
}
IMPORT_NOT_ACTED_ON: Mapping[str, str] = {
    "export": "nested imports keep the name of their importer",
    "transitive": "an import always includes its own imports",
    "shadow": "own and imported agents have different names",
}
SESSION_NOT_ACTED_ON: Mapping[str, str] = {
    "acp": "sessions use the provider's own command line",
    "k8s": "sessions run on this machine",
    "remote_match": "sessions run on this machine",
    "socket": "each city has its own tmux server",
    **dict.fromkeys(
        (
            "claim_holder_stall_timeout debounce_ms display_ms nudge_lock_timeout "
            "nudge_poll_interval nudge_ready_timeout nudge_retry_interval "
            "progress_stall_timeout setup_max_timeout"
        ).split(),
        "the controller has no such settings",
    ),
}
PACK_NOT_ACTED_ON: Mapping[str, str] = {
    "includes": "use [imports], as `city migrate` does",
    **dict.fromkeys("requires directories defaults scripts".split(), _OTHER),
}
PATCHES_NOT_ACTED_ON: Mapping[str, str] = {
    "github_pr_monitor": _OTHER,
    "named_session": "write a [[named_session]] of your own",
    "providers": "write it in [providers]",
    "rigs": "write it in [[rigs]]",
}

NOT_ACTED_ON: Mapping[str, Mapping[str, str]] = {
    "provider": PROVIDER_NOT_ACTED_ON,
    "workspace": WORKSPACE_NOT_ACTED_ON,
    "rig": RIG_NOT_ACTED_ON,
    "import": IMPORT_NOT_ACTED_ON,
    "session": SESSION_NOT_ACTED_ON,
    "pack": PACK_NOT_ACTED_ON,
}
