"""Keys that published packs carry and that change nothing here, each with the reason.

Each gives one warning per pack: its reader should know, and need not read it twice.
"""

from collections.abc import Mapping

AGENT_NOT_ACTED_ON: Mapping[str, str] = {
    "fallback": "a definition shadows by its layer, never by a flag",
    "skills": "use [skills_filter]",
    "mcp": "use [mcp_filter]",
    "pool": "use min_active_sessions and max_active_sessions",
    "rig_filter": "use rigs",
    "install_agent_hooks": "hooks come from the provider's overlay",
    "install_hooks": "hooks come from the provider's overlay",
    "hooks_installed": "hooks come from the provider's overlay",
    "inject_assigned_skills": "append the fragment `skills`",
    "interests": "nothing reads it",
    "upstream": "set the endpoint in env",
    "tmux_alias": "sessions are named after their agent",
    "mouse_mode": "set it in your own tmux configuration",
    "max_session_age": "sessions restart when their definition changes",
    "max_session_age_jitter": "sessions restart when their definition changes",
    "assigned_work_defer_limit": "a busy session is never ended for being idle",
    "work_dir_roots": "work_dir may be anywhere outside .git",
    "work_query": "work comes from the city's own queue",
    "sling_query": "work comes from the city's own queue",
    "scale_check": "pools scale with their queue",
    "on_boot": "use pre_start",
    "on_death": "nothing is run when a session ends",
    "emits_permission_warning": "readiness is told by ready_prompt_prefix",
}
PROVIDER_NOT_ACTED_ON: Mapping[str, str] = {
    "title_model": "titles come from the work",
    "permission_modes": "use options_schema",
    "emits_permission_warning": "readiness is told by ready_prompt_prefix",
    "accept_startup_dialogs": "gates are passed by launch flags",
    "acp_args": "sessions speak to the provider's own command line",
    "acp_command": "sessions speak to the provider's own command line",
    "supports_acp": "sessions speak to the provider's own command line",
    "upstream_env": "set the endpoint in env",
}
_OTHER = "this program does not have that part"
CITY_NOT_ACTED_ON: Mapping[str, str] = {
    name: _OTHER
    for name in (
        "include upstreams daemon session_sleep beads mail events orders api "
        "chat_sessions convergence doctor maintenance usage storage dolt service webhook "
        "webhooks github extmsg pricing global formulas commands runtimes packs "
        "order_defaults"
    ).split()
}
WORKSPACE_NOT_ACTED_ON: Mapping[str, str] = {
    "includes": "use [imports]",
    "default_rig_includes": "use [defaults.rig.imports]",
    "global_fragments": "use append_fragments in [agent_defaults]",
    "install_agent_hooks": "hooks come from the provider's overlay",
    "isolation": "set isolation in [agent_defaults]",
    "start_command": "set start_command in [agent_defaults]",
    **dict.fromkeys("session_template timezone suspended_on_start suspended color".split(), _OTHER),
}
RIG_NOT_ACTED_ON: Mapping[str, str] = {
    "includes": "use [rigs.imports]",
    "suspended": "use suspended_on_start",
    **dict.fromkeys(
        (
            "default_sling_target default_sling_targets session_sleep formula_vars "
            "formulas_dir dolt_host dolt_port"
        ).split(),
        _OTHER,
    ),
}
IMPORT_NOT_ACTED_ON: Mapping[str, str] = {
    "export": "names of nested imports are the importer's",
    "transitive": "an import brings what it imports itself",
    "shadow": "an own agent and an imported one have names of their own",
}
SESSION_NOT_ACTED_ON: Mapping[str, str] = dict.fromkeys(
    (
        "socket k8s acp nudge_ready_timeout nudge_poll_interval nudge_retry_interval "
        "progress_stall_timeout nudge_lock_timeout"
    ).split(),
    _OTHER,
)
PACK_NOT_ACTED_ON: Mapping[str, str] = dict.fromkeys(
    "includes requires directories defaults scripts".split(), _OTHER
)
PATCHES_NOT_ACTED_ON: Mapping[str, str] = dict.fromkeys(
    ["named_session", "rigs", "providers", "github_pr_monitor"], _OTHER
)

NOT_ACTED_ON: Mapping[str, Mapping[str, str]] = {
    "provider": PROVIDER_NOT_ACTED_ON,
    "workspace": WORKSPACE_NOT_ACTED_ON,
    "rig": RIG_NOT_ACTED_ON,
    "import": IMPORT_NOT_ACTED_ON,
    "session": SESSION_NOT_ACTED_ON,
    "pack": PACK_NOT_ACTED_ON,
}
