"""The other settings tables: city.toml, pack.toml, providers, rigs, MCP servers; ignored keys."""

from collections.abc import Mapping

from gascity.model.fields import Field, Kind, Merge, Table, table

_S, _I, _B, _D, _L = Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.DURATION, Kind.STRINGS

WORKSPACE = table(
    "workspace",
    (
        Field("name", _S, "City name (default: the pack name, else the directory name)."),
        Field("provider", _S, "Default provider of agents."),
        Field("prefix", _S, "Prefix of work item ids outside rigs."),
        Field("env", Kind.STRING_MAP, "Environment variables of every session.", {}, Merge.OVERLAY),
        Field(
            "max_active_sessions",
            _I,
            "Maximum number of concurrent sessions in the city; -1: no limit.",
            8,
            minimum=-1,
        ),
        Field("cost_per_day", Kind.NUMBER, "Maximum cost of the city per day.", minimum=0),
        Field("suspended_on_start", _B, "Start no sessions in this city.", False),
    ),
    aliases={"suspended": "suspended_on_start"},
)
SESSION = table(
    "session",
    (
        Field("runtime", _S, "Runtime of headless runs.", "process"),
        Field("startup_timeout", _D, "Timeout for starting a session.", "60s"),
        Field("setup_timeout", _D, "Timeout of one setup command.", "10s"),
        Field(
            "shutdown_timeout",
            _D,
            "Time a session has to exit after SIGINT, and again after SIGTERM.",
            "5s",
        ),
    ),
    aliases={"provider": "runtime"},
)
TEMPLATES = table(
    "templates",
    (
        Field(
            "mode",
            _S,
            "Undefined names in templates: an error, or empty text with a warning.",
            choices=("strict", "lenient"),
        ),
    ),
)
SECURITY = table(
    "security",
    (
        Field(
            "require_enforcement",
            _B,
            "Report tool limits that a provider cannot enforce as errors.",
            False,
        ),
        Field("gateway", _B, "Put all MCP servers behind the gateway of the city.", False),
    ),
)
NOTIFY = table(
    "notify",
    (
        Field(
            "on",
            _L,
            "What to notify of: work that failed or is done, sessions that wait for a user.",
            ("failed", "waiting"),
            choices=("failed", "waiting", "done"),
        ),
        Field("command", _L, "Program to run, with the event as JSON on standard input.", ()),
        Field("desktop", _B, "Show a desktop notification.", False),
        Field("webhook", _S, "URL to POST the event to, as JSON; may contain `${NAME}`."),
        Field(
            "min_interval",
            _D,
            "Minimum time between two notifications; events in between are sent together.",
            "30s",
        ),
    ),
)
PACK = table(
    "pack",
    (
        Field("name", _S, "Pack name.", required=True),
        Field("schema", _I, "Version of the pack format.", 2, minimum=1),
        Field("version", _S, "Pack version."),
        Field("description", _S, "What the pack is for, in one line."),
        Field("requires_gc", _S, "Version of the program that the pack was written for."),
    ),
)
IMPORT = table(
    "import",
    (
        Field("source", _S, "Directory, `builtin:NAME` or git repository.", required=True),
        Field("version", _S, "Version range, `tag:…`, `branch:…` or `sha:…` of a repository."),
        Field(
            "share",
            _B,
            "Share its overlays, skills, MCP servers and fragments with agents of other packs.",
            True,
        ),
        Field("templates", _S, "Undefined names in its templates.", choices=("strict", "lenient")),
    ),
)
RIG = table(
    "rig",
    (
        Field("name", _S, "Rig name.", required=True),
        Field("path", _S, "Project directory; belongs in city.local.toml."),
        Field("prefix", _S, "Prefix of work item ids (default: derived from the name)."),
        Field("default_branch", _S, "Branch that work starts from (default: origin's, else HEAD)."),
        Field(
            "max_active_sessions",
            _I,
            "Maximum number of concurrent sessions in this rig; -1: no limit.",
            minimum=-1,
        ),
        Field("cost_per_day", Kind.NUMBER, "Maximum cost of work in this rig per day.", minimum=0),
        Field("suspended_on_start", _B, "Start no sessions in this rig.", False),
    ),
    aliases={"suspended": "suspended_on_start"},
)
NAMED_SESSION = table(
    "named_session",
    (
        Field("template", _S, "Agent that the session runs.", required=True),
        Field("name", _S, "Session alias (default: the agent name)."),
        Field(
            "mode",
            _S,
            "Keep the session running, or only reserve its name.",
            "on_demand",
            choices=("always", "on_demand"),
        ),
        Field("scope", _S, "One session for the city, or one per rig.", choices=("city", "rig")),
        Field("dir", _S, "Rig of the session."),
    ),
)
MCP_TOOL = table("tool", (Field("capabilities", _L, "Capabilities of the tool."),))
MCP_SERVER = table(
    "mcp",
    (
        Field("name", _S, "Server name, equal to the file name.", required=True),
        Field("description", _S, "What the server provides.", required=True),
        Field(
            "transport",
            _S,
            "Transport (default: stdio with `command`, http with `url`).",
            choices=("stdio", "http", "sse"),
        ),
        Field("command", _S, "Program to run; it serves over standard input and output."),
        Field("args", _L, "Arguments of the command.", ()),
        Field("env", Kind.STRING_MAP, "Environment variables of the command.", {}),
        Field("url", _S, "URL of a remote server."),
        Field("headers", Kind.STRING_MAP, "HTTP headers for a remote server.", {}),
        Field(
            "gateway",
            _B,
            "Put the server behind the gateway, which enforces `[tools]` and `[capabilities]` "
            "(default: `gateway` of `[security]`).",
        ),
        Field("capabilities", _L, "Capabilities of its tools, such as `docs.read`.", ()),
        Field(
            "tools",
            Kind.ANY_MAP,
            "Single tools; `capabilities` of one replace those of the server.",
            {},
        ),
        Field("timeout", _D, "Timeout of a request."),
        Field("session", _B, "Pass the variables by which a session proves who it is.", False),
    ),
)

_WIRE = (
    Field("command", _S, "Native name of `command`."),
    Field("args", _S, "Native name of `args`."),
    Field("command_and_args", _S, "Native name of one list for command and args."),
    Field("env", _S, "Native name of `env`."),
    Field("url", _S, "Native name of `url`."),
    Field("headers", _S, "Native name of `headers`."),
    Field("timeout", _S, "Native name of `timeout`."),
    Field("env_names", _S, "Native list of variables to pass by name."),
    Field("env_headers", _S, "Native table of headers that take their value from a variable."),
    Field("bearer_env", _S, "Native name of the variable with the bearer token."),
    Field("args_quote", _S, "How to quote arguments that a shell reads."),
    Field("set", Kind.ANY_MAP, "Constants to add to a native entry.", {}, Merge.OVERLAY),
)


def _wire(transport: str) -> tuple[Field, ...]:
    return tuple(
        Field(
            f"mcp.{transport}.{field.name}",
            field.kind,
            f"{field.doc[:-1]} over {transport}.",
            field.default,
            field.merge,
        )
        for field in _WIRE
    )


# Agent files: how one is written, see gascity/render/agent_files.py.
_AGENTS = (
    Field("agents.directory", _S, "Directory it reads agent files from."),
    Field("agents.user_directory", _S, "Directory of the user's own agent files."),
    Field("agents.pattern", _S, "Glob of those files."),
    Field("agents.format", _S, "Format of an agent file.", choices=("markdown", "toml", "json")),
    Field("agents.file", _S, "File name of the agent {name}."),
    Field("agents.body", _S, "Key of the prompt; in Markdown it is below the keys."),
    Field(
        "agents.deliver",
        _S,
        "How a session gets its own agent: with each launch, or by a file in its directory.",
        "none",
        choices=("launch", "file", "none"),
    ),
    Field("agents.launch_flag", _L, "Arguments that make a run use the agent {name}.", ()),
    Field("agents.launch_default", _S, "Name in its own arguments that {name} replaces."),
    Field(
        "agents.launch_env",
        Kind.STRING_MAP,
        "Environment variables that pass agents to one launch, as {json}.",
        {},
        Merge.OVERLAY,
    ),
    Field("agents.launch_key", _L, "Key path of the agents in that JSON.", ()),
    Field("agents.also_reads", _L, "Other directories, and JSON files, with agents.", ()),
    Field(
        "agents.modes",
        Kind.ANY_MAP,
        "Tool rules of the agent by permission mode, instead of the mode's own arguments.",
        {},
        Merge.OVERLAY,
    ),
    Field("agents.subagents", _B, "It offers the model the agents of that directory.", False),
    Field(
        "agents.needs_approval",
        _B,
        "It ignores a new file of that directory until the user approves it in a terminal.",
        False,
    ),
    Field("agents.free_keys", _B, "It takes other keys too, so `options` are added.", False),
    Field("agents.option_keys", _L, "Keys that it takes from `options`.", ()),
    Field(
        "agents.keys",
        Kind.STRING_MAP,
        "Its keys by our setting, in their order; others are lost.",
        {},
        Merge.OVERLAY,
    ),
    Field(
        "agents.set",
        Kind.ANY_MAP,
        "Values of keys that the agent does not set.",
        {},
        Merge.OVERLAY,
    ),
    Field(
        "agents.tools.style",
        _S,
        "Tools as rules (allow, ask, deny) by name, or as a list of names.",
        choices=("permission", "list"),
    ),
    Field("agents.tools.key", _S, "Key of the tools that the agent may use."),
    Field("agents.tools.deny_key", _S, "Key of the tools it must not use."),
    Field("agents.tools.unasked_key", _S, "Key of the tools that it uses without asking."),
    Field("agents.tools.joined", _B, "Tools are one text, with commas.", False),
    Field(
        "agents.tools.rest",
        Kind.ANY_MAP,
        "Rules for all tools that are not allowed.",
        {},
        Merge.OVERLAY,
    ),
    Field("agents.tools.ask", _S, "Its rule to ask first."),
    Field("agents.tools.server", _S, "All tools of an MCP server (default: tools.server)."),
    Field("agents.tools.server_tool", _S, "A tool of a server (default: tools.server_tool)."),
    Field(
        "agents.tools.names",
        Kind.ANY_MAP,
        "Its names of generic tools in agent files, where they differ from tools.names.",
        {},
        Merge.OVERLAY,
    ),
)


def _listing(word: str, things: str) -> tuple[Field, ...]:
    """Return the fields of the command that lists one kind, and of how to read its output."""
    groups = "`name` or `names` (with commas), and `off` if not loaded; without it, JSON"
    return (
        Field(f"listing.{word}", _L, f"Command that lists {things}.", ()),
        Field(f"listing.{word}_pattern", _S, f"Pattern of {things} in the output: {groups}."),
        Field(f"listing.{word}_builtin", _L, f"Built-in {things} to ignore in the list.", ()),
    )


# What it reads from a project on its own, besides the files that the other tables name.
_PROJECT = (
    Field(
        "project.instructions",
        _S,
        "Instructions files that it reads in a directory: the first that exists, or all.",
        "none",
        choices=("first", "all", "none"),
    ),
    Field(
        "project.parents",
        _S,
        "Where else it reads these: between its directory and the top of the repository, or in "
        "all directories above it.",
        "repository",
        choices=("repository", "all", "none"),
    ),
    Field("project.overrides", _L, "Instructions files it reads instead of those.", ()),
    Field("project.includes", _S, "Sign before the path of a file that instructions include."),
    Field("project.rules", _L, "Globs of other instructions that it reads in a project.", ()),
    Field("project.settings", _L, "Settings files in a project besides `overlay.merge_files`.", ()),
    Field("project.commands", _L, "Globs of command files that it reads in a project.", ()),
    Field("project.agents", _L, "Globs of agent files elsewhere than in `agents.directory`.", ()),
    Field("project.agent_name", _S, "Key of an agent's name in its file (default: file name)."),
    Field(
        "project.same_skill",
        _S,
        "Skill it uses if two directories have one of the same name: of the first directory, "
        "of the last, or both.",
        "first",
        choices=("first", "last", "both"),
    ),
    Field(
        "project.mcp",
        Kind.STRING_MAP,
        "Files it reads MCP servers from, with the key of the servers; the first wins.",
        {},
        Merge.OVERLAY,
    ),
    Field(
        "project.launch",
        _S,
        "Servers passed at launch replace those of the project, override those of the same name, "
        "or are overridden.",
        "override",
        choices=("replace", "override", "yield"),
    ),
)

PROVIDER = table(
    "provider",
    (
        Field("display_name", _S, "Product name."),
        Field("base", _S, "Provider to inherit from: `claude`, `builtin:claude`."),
        Field("command", _S, "Program to run."),
        Field("args", _L, "Arguments of its command; in headless runs after `headless.args`.", ()),
        Field("env", Kind.STRING_MAP, "Environment variables of every launch.", {}, Merge.OVERLAY),
        Field("path_check", _S, "Program to look for on PATH instead of the command."),
        Field("process_names", _L, "Names of its process.", ()),
        Field(
            "prompt_mode",
            _S,
            "How to pass the prompt to an interactive session.",
            "arg",
            choices=("arg", "flag", "stdin", "file", "none"),
        ),
        Field("prompt_flag", _S, 'Flag for prompt_mode "flag" or "file".'),
        Field("prompt_separator", _S, "Argument before the prompt, such as `--`."),
        Field("ready_delay_ms", _I, "Start-up time of interactive sessions.", 0, minimum=0),
        Field(
            "ready_prompt_prefix",
            _S,
            "Prompt of an empty input line, for providers without [terminal].",
        ),
        Field("instructions_file", _S, "Instructions file it reads.", "AGENTS.md"),
        Field("instructions_also", _L, "Other instructions files it reads.", ()),
        Field("supports_hooks", _B, "It can run hook commands.", False),
        Field(
            "hook_output",
            _S,
            "What its hooks print to add text to the conversation.",
            "text",
            choices=("text", "context", "event-context", "inject-steps"),
        ),
        Field("interactive", _B, "It can run interactively in a terminal.", True),
        Field("resume_flag", _S, "Flag or subcommand to resume a conversation."),
        Field("resume_style", _S, "What resume_flag is.", "flag", choices=("flag", "subcommand")),
        Field("resume_command", _S, "Whole command to resume a conversation."),
        Field("session_id_flag", _S, "Flag to set the id of a new conversation."),
        Field("fork_flag", _S, "Flag to fork a conversation."),
        Field("settings_only", _B, "Only write its files, never launch it.", False),
        Field("script", _B, "It runs its message as a program, so it gets no prompt.", False),
        Field("option_defaults", Kind.STRING_MAP, "Values of its options.", {}, Merge.OVERLAY),
        Field("options_schema", Kind.TABLES, "Its options with their choices and flags.", ()),
        Field(
            "options_schema_merge",
            _S,
            "Replace the options of the base, or merge them by key.",
            "replace",
            choices=("replace", "by_key"),
        ),
        Field("headless.args", _L, "Arguments of a headless run.", ()),
        Field(
            "headless.prompt_mode",
            _S,
            "How to pass the prompt to a headless run.",
            choices=("arg", "flag", "stdin", "file", "none"),
        ),
        Field("headless.prompt_flag", _S, "Flag for that prompt_mode."),
        Field("headless.system_prompt_flag", _S, "Flag to pass the prompt as a system prompt."),
        Field("headless.system_prompt_file_flag", _S, "Flag to pass the system prompt as a file."),
        Field(
            "headless.system_prompt_args",
            _L,
            "Arguments to pass the system prompt {prompt}, where there is no such flag.",
            (),
        ),
        Field("headless.prompt_separator", _S, "Argument before the prompt of a headless run."),
        Field("headless.resume_flag", _S, 'Flag to resume in a headless run; "": none.'),
        Field("headless.session_id_flag", _S, 'Flag to set the id of a headless run; "": none.'),
        Field("headless.new_args", _L, "Arguments of a headless run that does not resume.", ()),
        Field("headless.max_turns_flag", _S, "Flag for the maximum number of turns (`steps`)."),
        Field("headless.output", _S, "Output format of a headless run.", "text"),
        Field("overlay.fallback_files", _L, "Overlay files that never override another file.", ()),
        Field("overlay.merge_files", _L, "JSON settings that overlays are merged into.", ()),
        Field("skills.directory", _S, "Directory it reads skills from."),
        Field("skills.also_reads", _L, "Other directories it reads skills from.", ()),
        Field(
            "skills.links",
            _S,
            "Symlinks it follows: any, or only those inside the project.",
            "any",
            choices=("any", "inside"),
        ),
        *_AGENTS,
        *_PROJECT,
        Field("mcp.target", _S, "File it reads MCP servers from."),
        Field("mcp.also_targets", _L, "Other files to write the servers to.", ()),
        Field("mcp.format", _S, "Format of that file.", choices=("json", "toml", "yaml")),
        Field("mcp.key", _L, "Key path of the servers in that file.", ()),
        Field("mcp.entries", _S, "Servers by name, or a list.", "map", choices=("map", "list")),
        Field("mcp.name_key", _S, "Key of the server name in a list."),
        Field("mcp.name_pattern", _S, "Pattern that server names must match."),
        Field("mcp.transports", _L, "Transports it supports.", ()),
        Field("mcp.expands", _L, "Forms of variable references that it expands itself.", ()),
        Field("mcp.expands_in", _L, "Keys in which it expands them.", ()),
        Field("mcp.reference", _S, "How it refers to an environment variable."),
        Field("mcp.passes_environment", _B, "Programs of servers inherit its environment.", True),
        Field(
            "mcp.env",
            Kind.STRING_MAP,
            "Environment variables that point a launch to the file.",
            {},
            Merge.OVERLAY,
        ),
        Field(
            "mcp.escape",
            Kind.STRING_MAP,
            "Text it would expand, and how to escape it.",
            {},
            Merge.OVERLAY,
        ),
        Field("mcp.launch_args", _L, "Arguments that pass servers to one launch.", ()),
        Field("mcp.launch_key", _L, "Key path for a launch (default: mcp.key)."),
        Field(
            "mcp.launch_env",
            Kind.STRING_MAP,
            "Environment variables that pass servers to one launch.",
            {},
            Merge.OVERLAY,
        ),
        Field(
            "mcp.launch_always",
            _B,
            "Pass servers to each launch, because those of the file wait for approval.",
            False,
        ),
        Field(
            "mcp.grant",
            _S,
            "How a run may call servers without asking: always, by allow_flag, grant_args or a "
            "file; unset: it cannot.",
            choices=("open", "flag", "args", "file"),
        ),
        Field("mcp.grant_args", _L, "Arguments that allow {server}, or that pass {file}.", ()),
        Field("mcp.grant_tool_args", _L, "Arguments that allow {tool} of {server}.", ()),
        Field("mcp.grant_server", _S, "Text in that file that allows {server}."),
        Field("mcp.grant_text", _S, "Text of that file around these, at {servers}."),
        Field("mcp.deny_args", _L, "Arguments that deny {tools} of {server}.", ()),
        Field("mcp.deny_server_args", _L, "Arguments that deny {server}.", ()),
        Field("mcp.closed_modes", _L, "Permission modes in which servers are not allowed.", ()),
        Field("mcp.not_callable", _S, "Why headless runs cannot call servers."),
        *_wire("stdio"),
        *_wire("http"),
        *_wire("sse"),
        Field("trust.args", _L, "Arguments that skip its trust prompts.", ()),
        Field("trust.env", Kind.STRING_MAP, "Environment that skips them.", {}, Merge.OVERLAY),
        Field("trust.asks", _B, "A terminal asks for trust in each new directory.", False),
        Field("login.files", _L, "Files that exist after a login, from `~` or a variable.", ()),
        Field("login.env", _L, "Variables that replace a login.", ()),
        Field("login.keychain", _B, "On macOS, the login may be in the keychain.", False),
        Field("tools.allow_flag", _S, "Flag to allow tools."),
        Field("tools.deny_flag", _S, "Flag to deny tools."),
        Field("tools.separator", _S, "Separator of several tools after one flag."),
        Field("tools.repeat", _B, "Repeat the flag for each tool.", False),
        Field("tools.server_tool", _S, "How it names a tool of an MCP server."),
        Field("tools.server", _S, "How it names all tools of an MCP server."),
        Field("tools.own_words", _S, "Pattern of tool names in its own grammar."),
        Field("tools.only_flag", _S, "Flag that takes the only built-in tools."),
        Field("tools.exclusive", _B, "The allow and deny flags exclude each other.", False),
        Field("tools.allow_only", _B, "The allow flag hides all other tools.", False),
        Field("tools.permission_mode", _S, "Permission mode when tools are limited."),
        Field(
            "tools.only", _S, "Runs that accept these flags.", choices=("headless", "interactive")
        ),
        Field("tools.shell_pattern", _S, "How it names a shell command."),
        Field("tools.prefix_pattern", _S, "How it also names commands by their first words."),
        Field("tools.names", Kind.STRING_MAP, "Its names of generic tools.", {}, Merge.OVERLAY),
        Field("conversation.file", _S, "Glob of the file in which it saves conversation {id}."),
        Field("conversation.home", _S, "Directory of that glob, below the home directory."),
        Field("conversation.home_env", _S, "Environment variable that replaces that directory."),
        Field("conversation.pattern", _S, "Pattern of a line of a file that can be resumed."),
        Field("terminal.before", _S, "Pattern left of the cursor on an empty input line."),
        Field("terminal.after", _S, "Pattern from the cursor on: blanks or a placeholder."),
        Field("terminal.above", _S, "Pattern of the line above the input line."),
        Field("terminal.below", _S, "Pattern of the line below it."),
        Field("terminal.below2", _S, "Pattern of the line two below it."),
        Field("terminal.below3", _S, "Pattern of the line three below it."),
        Field("terminal.cursor_shown", _B, "It hides the cursor in menus and dialogs.", False),
        Field("terminal.suggestion", _S, "Pattern of a line that announces suggested input."),
        Field(
            "terminal.region",
            _I,
            "Lines above the cursor from which on not_ready is searched.",
            8,
            minimum=0,
        ),
        Field("terminal.not_ready", _L, "Patterns of a running turn, menu or dialog.", ()),
        Field("terminal.dialogs", Kind.TABLES, "Its dialogs: pattern and name.", ()),
        Field("terminal.pasted", _S, "Pattern of what it shows instead of a long paste."),
        Field("limits.instruction_bytes", _I, "Maximum size of instructions.", minimum=0),
        Field("limits.context_tokens", _I, "Size of the model's context, for the HUD.", minimum=1),
        Field("limits.skill_listing_chars", _I, "Maximum size of a skill list.", minimum=0),
        Field(
            "limits.rate_limit_pattern",
            _S,
            "Pattern of a rate limit in the output of a failed run; `seconds` or `at` is its end.",
        ),
        Field("listing.version", _L, "Command that prints its version.", ()),
        Field("listing.seen", _S, "Version that these facts were checked against."),
        Field("listing.oldest", _S, "Oldest version that has the flags of these facts."),
        Field(
            "listing.env",
            Kind.STRING_MAP,
            "Environment variables of the listing commands.",
            {},
            Merge.OVERLAY,
        ),
        *_listing("mcp", "MCP servers"),
        *_listing("skills", "skills"),
        *_listing("agents", "agents"),
        Field(
            "listing.agents_in_error",
            _B,
            "Whether that command fails and its error message has the agents.",
            False,
        ),
        Field("listing.approve", _L, "Command to approve the MCP server {name}.", ()),
    ),
    aliases={"print_args": "headless.args"},
)

OPTION = table(
    "option",
    (
        Field("key", _S, "Option name.", required=True),
        Field("label", _S, "Label for users."),
        Field("type", _S, "Input type."),
        Field("default", _S, "Default value."),
        Field("flag", _L, "Arguments for any value; {value} is replaced."),
        Field("pattern", _S, "Pattern of values outside the choices."),
        Field("choices", Kind.TABLES, "Values with their flag_args or env.", ()),
        Field("only", _S, "Runs that accept its flags.", choices=("headless", "interactive")),
        Field("saved", _B, "The program saves the value in the user's own settings.", False),
        Field("omit", _B, "Remove the option of the base.", False),
    ),
)

DIALOG = table(
    "dialog",
    (
        Field("pattern", _S, "Pattern of text that only this dialog shows.", required=True),
        Field("name", _S, "What it asks for, such as `trust dialog`.", required=True),
    ),
)

# The top-level keys of each file with the table that decodes them; None: decoded by code.
CITY_TABLES: Mapping[str, Table | None] = {
    "include": None,
    "workspace": WORKSPACE,
    "session": SESSION,
    "templates": TEMPLATES,
    "security": SECURITY,
    "notify": NOTIFY,
    "implicit_agents": None,
    "agent_defaults": None,
    "agents": None,
    "agent": None,
    "patches": None,
    "providers": None,
    "imports": None,
    "defaults": None,
    "rigs": None,
    "named_session": None,
}
PACK_TABLES: Mapping[str, Table | None] = {
    "pack": PACK,
    "templates": TEMPLATES,
    "agent_defaults": None,
    "agent": None,
    "patches": None,
    "providers": None,
    "imports": None,
    "named_session": None,
}

# Known keys of published packs that have no effect, each with the reason. Each gives one warning
# per pack.
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
    "install_agent_hooks": "hooks come from the provider's overlay",
    "isolation": "set isolation in [agent_defaults]",
    "start_command": "set start_command in [agent_defaults]",
    "color": "it is not used",
    "session_template": "sessions are named after their agent",
    "timezone": "orders are not run",
}
RIG_NOT_ACTED_ON: Mapping[str, str] = {
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
