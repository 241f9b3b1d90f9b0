"""The other tables a person may write: city.toml, pack.toml, providers, rigs, MCP servers."""

from collections.abc import Mapping

from gascity.model.fields import Field, Kind, Merge, Table, table

_S, _I, _B, _D, _L = Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.DURATION, Kind.STRINGS

WORKSPACE = table(
    "workspace",
    (
        Field("name", _S, "The city's name; else the pack's, else the directory's."),
        Field("provider", _S, "Provider of agents that name none."),
        Field("prefix", _S, "Prefix of the city's own work."),
        Field("env", Kind.STRING_MAP, "Environment of every session.", {}, Merge.OVERLAY),
        Field(
            "max_active_sessions",
            _I,
            "Most sessions of the whole city at once; -1: no limit.",
            8,
            minimum=-1,
        ),
        Field("cost_per_day", Kind.NUMBER, "Most that the city may cost a day.", minimum=0),
    ),
)
SESSION = table(
    "session",
    (
        Field("runtime", _S, "Where headless runs go.", "process"),
        Field("startup_timeout", _D, "Longest time a session may take to start.", "60s"),
        Field("setup_timeout", _D, "Longest time one setup command may take.", "10s"),
        Field(
            "shutdown_timeout",
            _D,
            "Time a session gets after an interrupt, and again after a request to end.",
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
            "require_enforcement", _B, "A scope that a provider cannot enforce is an error.", False
        ),
    ),
)
PACK = table(
    "pack",
    (
        Field("name", _S, "The pack's name.", required=True),
        Field("schema", _I, "Version of the layout.", 2, minimum=1),
        Field("version", _S, "The pack's own version."),
        Field("description", _S, "One line: what the pack is for."),
        Field("requires_gc", _S, "Version of the program it was written for."),
    ),
)
IMPORT = table(
    "import",
    (
        Field("source", _S, "A directory, `builtin:NAME`, or a repository.", required=True),
        Field("version", _S, "A range, `tag:…`, `branch:…` or `sha:…` of a repository."),
        Field(
            "share",
            _B,
            "Do its overlays, skills, servers and fragments reach agents that are not its own.",
            True,
        ),
        Field("templates", _S, "Undefined names in its templates.", choices=("strict", "lenient")),
    ),
)
RIG = table(
    "rig",
    (
        Field("name", _S, "The rig's name.", required=True),
        Field("path", _S, "The project's directory; belongs in city.local.toml."),
        Field("prefix", _S, "Prefix of the rig's work; derived from its name."),
        Field("default_branch", _S, "Branch that work starts from; else origin's, else HEAD."),
        Field(
            "max_active_sessions",
            _I,
            "Most sessions in this rig at once; -1: no limit.",
            minimum=-1,
        ),
        Field("cost_per_day", Kind.NUMBER, "Most that work in it may cost a day.", minimum=0),
        Field("suspended_on_start", _B, "Start no sessions in it until asked.", False),
    ),
    aliases={"suspended": "suspended_on_start"},
)
NAMED_SESSION = table(
    "named_session",
    (
        Field("template", _S, "The agent whose session it is.", required=True),
        Field("name", _S, "The session's alias; else the agent's name."),
        Field(
            "mode",
            _S,
            "Keep one alive, or just reserve the name.",
            "on_demand",
            choices=("always", "on_demand"),
        ),
        Field("scope", _S, "Once in the city, or once in every rig.", choices=("city", "rig")),
        Field("dir", _S, "The rig it lives in."),
    ),
)
MCP_SERVER = table(
    "mcp",
    (
        Field("name", _S, "The server's name; equals the file's stem.", required=True),
        Field("description", _S, "What the server provides.", required=True),
        Field(
            "transport",
            _S,
            "How it is reached; else told by command or url.",
            choices=("stdio", "http", "sse"),
        ),
        Field("command", _S, "Program that serves over its standard input and output."),
        Field("args", _L, "Arguments of the command.", ()),
        Field("env", Kind.STRING_MAP, "Environment of the command.", {}),
        Field("url", _S, "Address of a remote server."),
        Field("headers", Kind.STRING_MAP, "HTTP headers of a remote server.", {}),
        Field("capabilities", _L, "Capabilities its tools have."),
        Field("timeout", _D, "Longest time it may take to answer."),
    ),
)

_WIRE = (
    Field("command", _S, "Native name of `command`."),
    Field("args", _S, "Native name of `args`."),
    Field("command_and_args", _S, "Native name of one list that holds command and args."),
    Field("env", _S, "Native name of `env`."),
    Field("url", _S, "Native name of `url`."),
    Field("headers", _S, "Native name of `headers`."),
    Field("timeout", _S, "Native name of `timeout`."),
    Field("env_names", _S, "Native list of variables passed on by name."),
    Field("env_headers", _S, "Native table of headers whose values are variables."),
    Field("bearer_env", _S, "Native name of the variable that holds a bearer token."),
    Field("args_quote", _S, "How arguments are quoted where a shell reads them."),
    Field("set", Kind.ANY_MAP, "Constants of a native entry.", {}, Merge.OVERLAY),
)


def _wire(transport: str) -> tuple[Field, ...]:
    return tuple(
        Field(
            f"mcp.{transport}.{one.name}",
            one.kind,
            f"{one.doc[:-1]} over {transport}.",
            one.default,
            one.merge,
        )
        for one in _WIRE
    )


def _listing(word: str, things: str) -> tuple[Field, ...]:
    """Its command for one kind of thing, and how to read what that prints."""
    found = "`name`, and `off` where it is not loaded; without it, JSON is read."
    return (
        Field(f"listing.{word}", _L, f"Its own command that lists {things}.", ()),
        Field(f"listing.{word}_pattern", _S, f"Finds {things} in the list: {found}"),
        Field(f"listing.{word}_builtin", _L, f"Listed {things} that are its own.", ()),
    )


PROVIDER = table(
    "provider",
    (
        Field("display_name", _S, "The product's name."),
        Field("base", _S, "Provider whose facts lie under these: `claude`, `builtin:claude`."),
        Field("command", _S, "The program."),
        Field("args", _L, "Arguments of every interactive session.", ()),
        Field("env", Kind.STRING_MAP, "Environment of every launch.", {}, Merge.OVERLAY),
        Field("path_check", _S, "Program to look for instead of the command."),
        Field("process_names", _L, "Names under which its process is seen.", ()),
        Field(
            "prompt_mode",
            _S,
            "How an interactive session gets its prompt.",
            "arg",
            choices=("arg", "flag", "stdin", "file", "none"),
        ),
        Field("prompt_flag", _S, 'The flag for prompt_mode "flag" (or "file").'),
        Field("prompt_separator", _S, "Argument that keeps a prompt from being read as flags."),
        Field(
            "ready_delay_ms", _I, "Time an interactive session takes to get ready.", 0, minimum=0
        ),
        Field("ready_prompt_prefix", _S, "Text that shows that it is ready for input."),
        Field("instructions_file", _S, "File of standing instructions it reads.", "AGENTS.md"),
        Field("instructions_also", _L, "Other such files it reads.", ()),
        Field("supports_hooks", _B, "It can call commands at points of a session.", False),
        Field("interactive", _B, "It can hold a conversation in a terminal.", True),
        Field("resume_flag", _S, "Flag or subcommand that resumes a conversation."),
        Field("resume_style", _S, "What resume_flag is.", "flag", choices=("flag", "subcommand")),
        Field("resume_command", _S, "Whole command that resumes a conversation."),
        Field("session_id_flag", _S, "Flag that names a new conversation."),
        Field("fork_flag", _S, "Flag that branches a conversation off."),
        Field("settings_only", _B, "Files are written for it, nothing is launched.", False),
        Field("script", _B, "Its message is run as a program, so only work reaches it.", False),
        Field("option_defaults", Kind.STRING_MAP, "Values of its options.", {}, Merge.OVERLAY),
        Field("options_schema", Kind.TABLES, "Its options, their choices and flags.", ()),
        Field(
            "options_schema_merge",
            _S,
            "Replace the base's options, or merge by key.",
            "replace",
            choices=("replace", "by_key"),
        ),
        Field("headless.args", _L, "Arguments of a one-shot run.", ()),
        Field(
            "headless.prompt_mode",
            _S,
            "How a one-shot run gets its prompt.",
            choices=("arg", "flag", "stdin", "file", "none"),
        ),
        Field("headless.prompt_flag", _S, "The flag for it."),
        Field("headless.system_prompt_flag", _S, "Flag that takes the agent's prompt apart."),
        Field("headless.system_prompt_file_flag", _S, "Flag that takes it as a file."),
        Field("headless.prompt_separator", _S, "Argument before a prompt of a one-shot run."),
        Field("headless.resume_flag", _S, 'Flag that resumes in a one-shot run; "": none.'),
        Field("headless.session_id_flag", _S, 'Flag that names a new one-shot run\'s; "": none.'),
        Field("headless.new_args", _L, "Arguments of a one-shot run that resumes nothing.", ()),
        Field("headless.output", _S, "Shape of what a one-shot run prints.", "text"),
        Field("overlay.fallback_files", _L, "Overlay files that never cover another file.", ()),
        Field("overlay.merge_files", _L, "Its JSON settings; overlays are merged in by key.", ()),
        Field("skills.directory", _S, "Where it looks for skills."),
        Field("skills.also_reads", _L, "Other directories it reads skills from.", ()),
        Field(
            "skills.links",
            _S,
            "Links it follows: any, or those inside the project.",
            "any",
            choices=("any", "inside"),
        ),
        Field("agents.directory", _S, "Where it looks for agent files."),
        Field("agents.pattern", _S, "What those files are called."),
        Field("mcp.target", _S, "File it reads MCP servers from."),
        Field("mcp.also_targets", _L, "Other files that get the servers.", ()),
        Field("mcp.format", _S, "Format of that file.", choices=("json", "toml", "yaml")),
        Field("mcp.key", _L, "Path of the servers in it.", ()),
        Field("mcp.entries", _S, "Servers by name, or a list.", "map", choices=("map", "list")),
        Field("mcp.name_key", _S, "Name of a server in a list."),
        Field("mcp.name_pattern", _S, "What a server may be called."),
        Field("mcp.transports", _L, "Transports it can use.", ()),
        Field("mcp.expands", _L, "Text in values that it expands itself.", ()),
        Field("mcp.expands_in", _L, "Where it expands.", ()),
        Field("mcp.reference", _S, "How it writes an environment variable."),
        Field("mcp.passes_environment", _B, "Servers get the launch's environment.", True),
        Field(
            "mcp.env",
            Kind.STRING_MAP,
            "Environment of a launch that points to the file.",
            {},
            Merge.OVERLAY,
        ),
        Field(
            "mcp.escape",
            Kind.STRING_MAP,
            "Text it would expand, and how to protect it.",
            {},
            Merge.OVERLAY,
        ),
        Field("mcp.needs_mode", _S, "Permission mode without which one-shot runs use no server."),
        Field("mcp.launch_args", _L, "Arguments that hand servers to one launch.", ()),
        Field("mcp.launch_key", _L, "Path of the servers in what a launch gets; else mcp.key."),
        Field("mcp.launch_expands", _B, "It expands what a launch gets as it does the file.", True),
        Field(
            "mcp.launch_env",
            Kind.STRING_MAP,
            "Environment that hands them to one launch.",
            {},
            Merge.OVERLAY,
        ),
        *_wire("stdio"),
        *_wire("http"),
        *_wire("sse"),
        Field("trust.args", _L, "Arguments that pass its trust gates.", ()),
        Field("trust.env", Kind.STRING_MAP, "Environment that passes them.", {}, Merge.OVERLAY),
        Field("tools.allow_flag", _S, "Flag that allows a tool."),
        Field("tools.deny_flag", _S, "Flag that denies a tool."),
        Field("tools.separator", _S, "Joins several tools behind one flag."),
        Field("tools.repeat", _B, "Repeats the flag for each tool.", False),
        Field("tools.server_tool", _S, "How it names a tool of an MCP server."),
        Field("tools.server", _S, "How it names every tool of an MCP server."),
        Field("tools.allow_only", _B, "Tools it does not allow so are not there at all.", False),
        Field("tools.permission_mode", _S, "Its mode where only some tools are allowed."),
        Field("tools.only", _S, "Runs that take these flags.", choices=("headless", "interactive")),
        Field("tools.shell_pattern", _S, "How it names a shell command."),
        Field("tools.names", Kind.STRING_MAP, "Its words for the neutral ones.", {}, Merge.OVERLAY),
        Field("limits.instruction_bytes", _I, "Most it reads of instruction files.", minimum=0),
        Field("limits.skill_listing_chars", _I, "Most it lists of skills.", minimum=0),
        Field(
            "limits.rate_limit_pattern",
            _S,
            "Finds a rate limit in a failed run's last lines; `seconds` or `at` is its end.",
        ),
        Field("listing.version", _L, "Its own command that says its version.", ()),
        Field("listing.seen", _S, "The version that these facts were seen with."),
        Field(
            "listing.env",
            Kind.STRING_MAP,
            "Environment of its commands that list.",
            {},
            Merge.OVERLAY,
        ),
        *_listing("mcp", "MCP servers"),
        *_listing("skills", "skills"),
        *_listing("agents", "agents"),
        Field("listing.approve", _L, "Command that approves the server {name}.", ()),
    ),
    aliases={"print_args": "headless.args"},
)

OPTION = table(
    "option",
    (
        Field("key", _S, "The option's name.", required=True),
        Field("label", _S, "What people call it."),
        Field("type", _S, "Kind of input."),
        Field("default", _S, "Value when nobody says."),
        Field("flag", _L, "Arguments for any value; {value} stands for it."),
        Field("pattern", _S, "What a value outside the choices looks like."),
        Field("choices", Kind.TABLES, "Values with their flag_args or env.", ()),
        Field("only", _S, "Runs that take its flags.", choices=("headless", "interactive")),
        Field("omit", _B, "Take the base's option away.", False),
    ),
)

# What may stand at the top of each file, by the table it is read with; None is read by hand.
CITY_TABLES: Mapping[str, Table | None] = {
    "include": None,
    "workspace": WORKSPACE,
    "session": SESSION,
    "templates": TEMPLATES,
    "security": SECURITY,
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
