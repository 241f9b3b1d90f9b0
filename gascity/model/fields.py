"""The one table of agent settings: agent.toml, defaults, patches, JSON schemas and docs read it."""

from collections.abc import Iterable, Mapping
from enum import Enum

from gascity.model.records import NamedTuple


class Merge(Enum):
    """What a later layer does to an earlier one."""

    REPLACE = "replaces"
    OVERLAY = "merges by key"
    GROW = "only grows"
    FRAGMENTS = "own entries first, then inherited ones"


class Kind(Enum):
    """What a value may be; the word is what messages call it."""

    STRING = "a string"
    INTEGER = "an integer"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    DURATION = 'a duration such as "90s", "30m" or "2h"'
    STRINGS = "a list of strings"
    STRING_MAP = "a table of strings"
    ANY_MAP = "a table"
    PATH = "a path"
    TABLES = "an array of tables"
    ANY = "any value"


class Field(NamedTuple):
    """One setting. Dots are nested tables: `tools.allow` is `allow` under `[tools]`."""

    name: str
    kind: Kind
    doc: str
    default: object = None
    merge: Merge = Merge.REPLACE
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    required: bool = False


class Edit(Enum):
    """How a written key changes its field."""

    SET = ""
    APPEND = "_append"
    REMOVE = "_remove"


class Table(NamedTuple):
    """A named set of fields with every key that may be written for them."""

    name: str
    fields: Mapping[str, Field]
    keys: Mapping[str, tuple[Field, Edit]]
    aliases: Mapping[str, str]
    prefixes: frozenset[str]
    required: tuple[Field, ...]


def table(name: str, fields: Iterable[Field], aliases: Mapping[str, str] | None = None) -> Table:
    """Index fields by every key that writes them; lists and maps also take their edits."""
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
    required = tuple(field for field in by_name.values() if field.required)
    return Table(name, by_name, keys, aliases or {}, frozenset(prefixes), required)


def _filter(name: str, what: str) -> tuple[Field, Field]:
    return (
        Field(f"{name}.allow", Kind.STRINGS, f"Globs of {what} it may use; absent: all, []: none."),
        Field(f"{name}.deny", Kind.STRINGS, f"Globs of {what} it may not use; deny wins.", ()),
    )


_S, _I, _B, _D, _L = Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.DURATION, Kind.STRINGS

AGENT = table(
    "agent",
    (
        # Who it is
        Field("description", _S, "One line: what the agent is for.", ""),
        Field("display_name", _S, "The name shown to people; the identity stays the directory's."),
        Field("provider", _S, "Provider that runs it: a built-in one, or one of the city's own."),
        Field("model", _S, "Model to run, in the provider's own words."),
        Field("prompt", Kind.PATH, "The prompt file; in a patch: a file under patches/."),
        Field(
            "mode",
            _S,
            "Who may start it: people, other agents, or both.",
            "all",
            choices=("primary", "subagent", "all"),
        ),
        Field("hidden", _B, "Keep it out of lists that other agents and clients see.", False),
        Field(
            "scope",
            _S,
            "Where it lives: once in the city, or once in every rig.",
            choices=("city", "rig"),
        ),
        Field("rigs", _L, "The rigs it lives in; makes it an agent of rigs."),
        Field("dir", _S, "The one rig it lives in (older spelling of `rigs`)."),
        Field("suspended", _B, "Never start sessions of it.", False),
        Field("depends_on", _L, "Agents that must be awake before it starts.", ()),
        # How many, and when
        Field("min_active_sessions", _I, "Sessions kept alive without any work.", 0, minimum=0),
        Field(
            "max_active_sessions",
            _I,
            "Most sessions at once, per rig; -1 for no limit.",
            1,
            minimum=-1,
        ),
        Field(
            "max_active_total",
            _I,
            "Most sessions at once over all rigs; -1 for no limit.",
            minimum=-1,
        ),
        Field("namepool", Kind.PATH, "File of display names for pool sessions, one a line."),
        Field(
            "idle_timeout",
            _D,
            'End a session that has been idle this long, or "off".',
            choices=("off",),
        ),
        Field(
            "sleep_after_idle",
            _D,
            'Put an idle session to sleep after this long, or "off".',
            choices=("off",),
        ),
        Field("drain_timeout", _D, "Time a session gets to finish when the pool shrinks.", "5m"),
        Field(
            "wake_mode",
            _S,
            "Start afresh or go on with the last conversation.",
            choices=("resume", "fresh"),
        ),
        Field("wake_on_mail", _B, "Unread mail starts a session.", True),
        Field(
            "lifecycle",
            _S,
            '"one_shot": the command is expected to end by itself.',
            choices=("", "one_shot"),
        ),
        # Where it works
        Field(
            "execution",
            _S,
            "Run on this machine or in a container.",
            "host",
            choices=("host", "container"),
        ),
        Field(
            "session_state",
            _S,
            "Stateful agents close their work; stateless ones just answer.",
            "stateful",
            choices=("stateful", "stateless"),
        ),
        Field(
            "isolation",
            _S,
            "A git worktree for each session, or work in place; absent: a worktree in git rigs.",
            choices=("worktree", "none"),
        ),
        Field("work_dir", _S, "Template of the working directory, relative to the city."),
        Field("runtime", _S, 'Where headless runs go: "process" or an installed runtime.'),
        Field("session", _S, "Transport of interactive sessions.", choices=("", "acp", "tmux")),
        Field("attach", _B, "May a person attach to its sessions.", True),
        Field("overlay_dir", Kind.PATH, "Directory of overlay files, if not overlay/."),
        Field(
            "overlay_tracked",
            _S,
            "May overlay files cover files that git tracks.",
            "cover",
            choices=("cover", "keep"),
        ),
        # What it is told and given
        Field(
            "append_fragments",
            _L,
            "Fragments added at the end of a template prompt.",
            (),
            Merge.FRAGMENTS,
        ),
        Field("nudge", _S, "Text typed into an interactive session after it starts."),
        Field(
            "env",
            Kind.STRING_MAP,
            "Environment of its sessions; also template variables.",
            {},
            Merge.OVERLAY,
        ),
        Field(
            "default_sling_formula",
            _S,
            'Formula put on work slung here; "mol-do-work" is plain work.',
        ),
        Field(
            "option_defaults",
            Kind.STRING_MAP,
            "Provider options: permission_mode, effort …",
            {},
            Merge.OVERLAY,
        ),
        Field(
            "options", Kind.ANY_MAP, "Passed on to the provider as it stands.", {}, Merge.OVERLAY
        ),
        # Scope: what it may use
        Field("tools.allow", _L, "Tools it may use: name, name(glob), server/tool, *."),
        Field("tools.deny", _L, "Tools it may never use; only grows.", (), Merge.GROW),
        Field("tools.ask", _L, "Tools it may use after a person agreed.", ()),
        Field(
            "tools.exposure",
            _S,
            "Offer MCP servers as tools, as skills, or both.",
            "tools",
            choices=("tools", "skills", "mixed"),
        ),
        *_filter("capabilities", "tool capabilities"),
        *_filter("skills_filter", "skills"),
        *_filter("mcp_filter", "MCP servers"),
        *_filter("agents_filter", "agents"),
        # Bounds
        Field("limits.timeout", _D, "Longest time one run may take."),
        Field(
            "limits.max_attempts",
            _I,
            "Starts of one work item before it is given up.",
            3,
            minimum=1,
        ),
        Field(
            "limits.retries", _I, "Failures of one work item that are tried again.", 0, minimum=0
        ),
        Field("limits.log_bytes", _I, "Size of one run's log.", 10_000_000, minimum=4096),
        Field("limits.cost_per_item", Kind.NUMBER, "Most that one work item may cost.", minimum=0),
        Field("limits.cost_per_day", Kind.NUMBER, "Most that the agent may cost a day.", minimum=0),
        Field(
            "limits.delegation_depth",
            _I,
            "How deep work may be slung on from its sessions; 0: not at all.",
            1,
            minimum=0,
        ),
        Field(
            "limits.delegation_budget",
            _I,
            "Items that may be slung in the course of one.",
            20,
            minimum=0,
        ),
        # How it is started
        Field("start_command", _S, "Shell command that starts it, instead of the provider."),
        Field("args", _L, "Arguments of the provider's command; replaces the provider's own."),
        Field(
            "prompt_mode",
            _S,
            "How the prompt reaches the process.",
            choices=("arg", "flag", "stdin", "file", "none"),
        ),
        Field("prompt_flag", _S, 'The flag for prompt_mode "flag" (or "file").'),
        Field("ready_delay_ms", _I, "Time an interactive session takes to get ready.", minimum=0),
        Field("ready_prompt_prefix", _S, "Text that shows that an interactive session is ready."),
        Field("process_names", _L, "Names under which its process is seen."),
        Field("resume_command", _S, "Command that resumes a conversation."),
        Field("pre_start", _L, "Shell commands run before the session is made.", ()),
        Field("session_setup", _L, "Shell commands run after the session is made.", ()),
        Field("session_setup_script", Kind.PATH, "Script run after session_setup."),
        Field("session_live", _L, "Shell commands that may run again in a live session.", ()),
    ),
    aliases={
        "prompt_template": "prompt",
        "inject_fragments": "append_fragments",
        "inject_fragments_append": "append_fragments_append",
    },
)
