"""Settings tables: their building blocks, and the table of agent settings.

A new setting is one `Field`. Decoding, defaults, merging, `explain`, JSON schemas, the typed
records in settings.py and the reference page all follow from it.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

PLAIN_WORK = "mol-do-work"  # the formula that means: the text is the work


class Merge(Enum):
    """Rule that combines a layer's value with the values of the layers below it."""

    REPLACE = "replaces"
    OVERLAY = "merges by key"
    DEEP = "merges by key, nested tables too"
    GROW = "only grows"
    FRAGMENTS = "own entries first, then inherited ones"


class Kind(Enum):
    """Type of a value; messages use the text."""

    STRING = "a string"
    INTEGER = "an integer"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    DURATION = 'a duration such as "90s", "30m" or "2h"'
    STRINGS = "a list of strings"
    STRING_MAP = "a table of strings"
    ANY_MAP = "a table"
    PATH = "a path"
    COLOR = '"#rrggbb" or a word'
    TABLES = "an array of tables"
    ANY = "any value"


class Field(NamedTuple):
    """One setting. A dot means a nested table: `tools.allow` is `allow` in `[tools]`."""

    name: str
    kind: Kind
    doc: str
    default: object = None
    merge: Merge = Merge.REPLACE
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    required: bool = False
    maximum: int | None = None


class Edit(Enum):
    """Effect of a key in a file on its field: `args_append` appends to `args`."""

    SET = ""
    APPEND = "_append"
    REMOVE = "_remove"


class Table(NamedTuple):
    """A named set of fields, indexed by every key a file may use for them.

    `scalars` are the fields of a single value: the topmost layer that has it decides.
    """

    name: str
    fields: Mapping[str, Field]
    keys: Mapping[str, tuple[Field, Edit]]
    aliases: Mapping[str, str]
    prefixes: frozenset[str]
    required: tuple[Field, ...]
    scalars: frozenset[str]


def table(name: str, fields: Iterable[Field], aliases: Mapping[str, str] | None = None) -> Table:
    """Index fields by every key that sets or edits them; lists and maps also have edit keys."""
    by_name = {field.name: field for field in fields}
    keys: dict[str, tuple[Field, Edit]] = {}
    for field in by_name.values():
        keys[field.name] = (field, Edit.SET)
        if field.kind is Kind.STRINGS:
            keys[field.name + "_append"] = (field, Edit.APPEND)
        if field.kind in (Kind.STRINGS, Kind.STRING_MAP, Kind.ANY_MAP):
            keys[field.name + "_remove"] = (field, Edit.REMOVE)
    prefixes = {key.rpartition(".")[0] for key in keys if "." in key}
    prefixes |= {prefix.rpartition(".")[0] for prefix in prefixes if "." in prefix}
    folded = (Kind.STRINGS, Kind.STRING_MAP, Kind.ANY_MAP, Kind.DURATION)
    return Table(
        name,
        by_name,
        keys,
        aliases or {},
        frozenset(prefixes),
        required=tuple([field for field in by_name.values() if field.required]),
        scalars=frozenset([field.name for field in by_name.values() if field.kind not in folded]),
    )


def _filter(name: str, what: str) -> tuple[Field, Field]:
    return (
        Field(f"{name}.allow", Kind.STRINGS, f"Globs of {what} it may use (default: all)."),
        Field(f"{name}.deny", Kind.STRINGS, f"Globs of {what} it must not use.", ()),
    )


_S, _I, _B, _D, _L = Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.DURATION, Kind.STRINGS

AGENT = table(
    "agent",
    (
        # Identity
        Field("description", _S, "What the agent is for, in one line.", ""),
        Field("display_name", _S, "Name shown to users (default: the agent name)."),
        Field("provider", _S, "Provider that runs it: a built-in one or one defined by the city."),
        Field("model", _S, "Model name, as the provider spells it."),
        Field("prompt", Kind.PATH, "Prompt file; in a patch, a file under patches/."),
        Field(
            "mode",
            _S,
            "Who may give it work: users (primary), other agents (subagent), or all.",
            "all",
            choices=("primary", "subagent", "all"),
        ),
        Field("hidden", _B, "Hide it from other agents and from clients.", False),
        Field("scope", _S, "One instance for the city, or one per rig.", choices=("city", "rig")),
        Field("rigs", _L, 'Rigs that get an instance; implies `scope = "rig"`.'),
        Field("dir", _S, "The only rig that gets an instance (older form of `rigs`)."),
        Field("suspended", _B, "Never start a session.", False),
        Field("type", _S, "Kind of starter knowledge that it gets (default: the agent name)."),
        Field("depends_on", _L, "Agents that must be running before it starts.", ()),
        # Sessions
        Field("min_active_sessions", _I, "Sessions to keep running without work.", 0, minimum=0),
        Field(
            "max_active_sessions",
            _I,
            "Maximum number of concurrent sessions per rig; -1: no limit.",
            1,
            minimum=-1,
        ),
        Field(
            "max_active_total",
            _I,
            "Maximum number of concurrent sessions in all rigs; -1: no limit.",
            minimum=-1,
        ),
        Field("namepool", Kind.PATH, "File with display names for sessions, one per line."),
        Field(
            "idle_timeout",
            _D,
            'Stop a session that has been idle for this long, or "off".',
            choices=("off",),
        ),
        Field(
            "sleep_after_idle",
            _D,
            'Put a session to sleep after it has been idle for this long, or "off".',
            choices=("off",),
        ),
        Field("drain_timeout", _D, "Time a session has to finish before it is stopped.", "5m"),
        Field(
            "wake_mode",
            _S,
            "Resume the last conversation or start a fresh one.",
            choices=("resume", "fresh"),
        ),
        Field("wake_on_mail", _B, "Start a session when there is unread mail.", True),
        Field(
            "lifecycle", _S, '"one_shot": the command exits by itself.', choices=("", "one_shot")
        ),
        # Working directory and runtime
        Field(
            "execution",
            _S,
            "Run on the host or in a container.",
            "host",
            choices=("host", "container"),
        ),
        Field(
            "session_state",
            _S,
            "Stateful agents close their work items; stateless agents only answer.",
            "stateful",
            choices=("stateful", "stateless"),
        ),
        Field(
            "isolation",
            _S,
            "A git worktree for each session, or none (default: a worktree in git rigs).",
            choices=("worktree", "none"),
        ),
        Field("work_dir", _S, "Working directory, relative to the city; may be a template."),
        Field("runtime", _S, 'Runtime of headless runs: "process" or an installed runtime.'),
        Field("session", _S, "Transport of interactive sessions.", choices=("", "acp", "tmux")),
        Field("attach", _B, "Allow users to attach to its sessions.", True),
        Field("overlay_dir", Kind.PATH, "Directory of overlay files (default: overlay/)."),
        Field(
            "overlay_tracked",
            _S,
            "Whether overlay files replace files that git tracks (cover) or not (keep).",
            "cover",
            choices=("cover", "keep"),
        ),
        # Prompt, environment and options
        Field(
            "append_fragments", _L, "Fragments to append to a template prompt.", (), Merge.FRAGMENTS
        ),
        Field(
            "hud",
            _L,
            "HUD sections in the fragment `hud`, as globs (default: all in `hud/` directories).",
        ),
        Field("nudge", _S, "Text to type into an interactive session after it starts."),
        Field(
            "reflection",
            Kind.PATH,
            "File with the message that a session gets after each work item that is done.",
        ),
        Field(
            "env",
            Kind.STRING_MAP,
            "Environment variables of its sessions; templates can use them too.",
            {},
            Merge.OVERLAY,
        ),
        Field(
            "default_sling_formula",
            _S,
            f'Formula for work slung to it; "{PLAIN_WORK}" is plain work.',
        ),
        Field(
            "option_defaults",
            Kind.STRING_MAP,
            "Provider options, such as permission_mode or effort.",
            {},
            Merge.OVERLAY,
        ),
        Field(
            "options",
            Kind.ANY_MAP,
            "Keys for its agent file; a table of a provider's name is only for that provider.",
            {},
            Merge.DEEP,
        ),
        Field(
            "temperature", Kind.NUMBER, "Sampling temperature of the model.", minimum=0, maximum=2
        ),
        Field("top_p", Kind.NUMBER, "Nucleus sampling of the model.", minimum=0, maximum=1),
        Field("steps", _I, "Maximum number of turns before it must answer.", minimum=1),
        Field("variant", _S, "Variant of the model: the provider's option `effort`."),
        Field("color", Kind.COLOR, "Color in user interfaces: `#rrggbb` or a word."),
        Field(
            "native_subagents",
            _L,
            "Globs of agents to write next to it as the provider's own subagents.",
            (),
        ),
        # Permissions
        Field("tools.allow", _L, "Tools it may use: name, name(glob), server/tool or *."),
        Field("tools.deny", _L, "Tools it must not use; layers only add to it.", (), Merge.GROW),
        Field("tools.ask", _L, "Tools it may use after a user confirms.", ()),
        Field(
            "tools.exposure",
            _S,
            "Offer MCP servers as tools, as skills, or as both.",
            "tools",
            choices=("tools", "skills", "mixed"),
        ),
        *_filter("capabilities", "tool capabilities"),
        *_filter("skills_filter", "skills"),
        *_filter("mcp_filter", "MCP servers"),
        *_filter("agents_filter", "agents"),
        # Limits
        Field("limits.timeout", _D, "Timeout of one run."),
        Field(
            "limits.max_attempts",
            _I,
            "How often a work item is started before it fails.",
            3,
            minimum=1,
        ),
        Field("limits.retries", _I, "How often a failed work item is retried.", 0, minimum=0),
        Field("limits.log_bytes", _I, "Maximum size of one run's log.", 10_000_000, minimum=4096),
        Field("limits.cost_per_item", Kind.NUMBER, "Maximum cost of one work item.", minimum=0),
        Field("limits.cost_per_day", Kind.NUMBER, "Maximum cost of the agent per day.", minimum=0),
        Field(
            "limits.delegation_depth",
            _I,
            "How many levels deep its sessions may sling work; 0: not at all.",
            1,
            minimum=0,
        ),
        Field(
            "limits.delegation_budget",
            _I,
            "How many work items one work item may sling.",
            20,
            minimum=0,
        ),
        Field(
            "limits.delegation_self",
            _B,
            "Let its sessions sling work to their own agent, without --wait.",
            False,
        ),
        Field(
            "limits.memory_chars",
            _I,
            "Maximum length of the fragment `memory`, in characters.",
            8000,
            minimum=0,
        ),
        Field("limits.reflection_timeout", _D, "Timeout of the run after a work item.", "2m"),
        # Launch
        Field("start_command", _S, "Shell command to run instead of the provider."),
        Field(
            "args",
            _L,
            "Arguments of the provider's command; in headless runs after `headless.args`.",
        ),
        Field(
            "prompt_mode",
            _S,
            "How the prompt is passed to the process.",
            choices=("arg", "flag", "stdin", "file", "none"),
        ),
        Field("prompt_flag", _S, 'Flag for prompt_mode "flag" or "file".'),
        Field("ready_delay_ms", _I, "Start-up time of interactive sessions.", minimum=0),
        Field(
            "ready_prompt_prefix",
            _S,
            "Prompt of an empty input line, for providers without [terminal].",
        ),
        Field("process_names", _L, "Names of its process."),
        Field("resume_command", _S, "Command to resume a conversation."),
        Field("pre_start", _L, "Shell commands to run before the session is created.", ()),
        Field("session_setup", _L, "Shell commands to run after the session is created.", ()),
        Field("session_setup_script", Kind.PATH, "Script to run after session_setup."),
        Field("session_live", _L, "Shell commands that may run again in a running session.", ()),
    ),
    aliases={
        "prompt_template": "prompt",
        "inject_fragments": "append_fragments",
        "inject_fragments_append": "append_fragments_append",
    },
)
