"""Build the command line, environment and stdin of one run from the provider's facts.

Nothing is written here: files that the run needs are returned with the invocation.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from gascity.model.city import Agent
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.render.arguments import fill_placeholders, flag_args
from gascity.render.flags import (
    HEADLESS,
    base_args,
    option_flags,
    own_delivery,
    set_by_agent,
    tool_flags,
)
from gascity.render.server_access import PERMISSIONS, server_access

MAX_ARG_BYTES = 128 * 1024  # Linux's limit for one argument or variable with its final NUL

FilePath = Callable[[str], str]  # the path at which a file of the run will be written, by name


class Message(NamedTuple):
    """The input of a run: the agent's prompt, and its task (work, mail or nudges)."""

    prompt: str
    text: str


class LaunchExtra(Protocol):
    """Arguments and variables beside the provider's own: trust flags, MCP servers."""

    @property
    def args(self) -> tuple[str, ...]: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the MCP servers that the run gets."""
        ...

    @property
    def file_prompt(self) -> str | None:
        """The prompt in the session's own agent file; None if there is no such file."""
        ...

    @property
    def hud(self) -> str:
        """The HUD sections of that prompt: the file does not have them, so the message does."""
        ...

    @property
    def agent_name(self) -> str:
        """The name of the session's own agent, if another agent there has its usual name."""
        ...

    @property
    def gateways(self) -> tuple[str, ...]:
        """The names of the servers whose tools the gateway limits, not the provider."""
        ...


class Invocation(NamedTuple):
    """A command to run; it must not be run if there is an error among the problems.

    `env` overrides the agent's own environment, which includes the provider's. `files` are texts
    by the name passed to `file_path`; they are private and written before the start.
    `conversation` is the id to resume by, if it is known before the provider reports it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    stdin: str = ""
    files: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()
    conversation: str = ""


class _InputMode(NamedTuple):
    """The way a program takes a text: `arg flag stdin file none`, with which flag or separator."""

    mode: str
    flag: str = ""
    separator: str = ""


class OwnAgent(NamedTuple):
    """Arguments and variables with which a run uses its own agent.

    `has_prompt`: the agent has the prompt, so that the message need not repeat it, except `hud`.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    has_prompt: bool = False
    hud: str = ""
    problems: tuple[Problem, ...] = ()


class _Input(NamedTuple):
    """A text as arguments, stdin or files."""

    args: tuple[str, ...] = ()
    stdin: str = ""
    files: Mapping[str, str] = {}


def build_invocation(
    kind: str,
    provider: Provider,
    agent: Agent,
    message: Message,
    *,
    conversation: str,
    resume: bool,
    extra: LaunchExtra,
    file_path: FilePath,
    environ: Mapping[str, str] = {},
) -> Invocation:
    """Return the command of a run that ends by itself, or of a conversation in a terminal.

    `conversation` is the provider's id of the one to resume, or a new UUID for a new one.
    A provider that cannot resume starts a new conversation with the whole message. `environ` is the
    environment of the run without that of the invocation.
    """
    resume_command = agent.settings.resume_command if resume and conversation else ""
    tools = tool_flags(provider, agent, kind, extra.servers, extra.gateways)
    mode = _input_mode(provider, agent, kind)
    if resume_command or agent.settings.start_command:
        command = (resume_command or "").replace("{{.SessionKey}}", _shell_quoted(conversation))
        invocation = _shell_invocation(agent, command, message, mode, extra, file_path)
        return _checked(provider, invocation._replace(problems=tools.problems))
    options = option_flags(provider, agent, kind)
    file, gateways = file_path(PERMISSIONS), extra.gateways
    access = server_access(provider, agent, kind, extra.servers, file, gateways)
    conversation_args, resumed = _conversation_args(provider, kind, conversation, resume)
    message = message._replace(prompt="") if provider.facts.script else message
    own = _own_agent(provider, agent, kind, mode, message, extra, environ)
    system, text = _Input(), message.text
    if not own.has_prompt:
        system, text = _split_prompt(provider, kind, mode, message, resumed, file_path)
    elif text or not resumed:  # a resumed conversation gets no message of only its HUD
        text = _joined(Message(own.hud, text))
    task = _input(mode, text, file_path)
    argv = (
        provider.facts.command or "",
        *base_args(provider, agent, kind),
        *options.args,
        *tools.args,
        *access.args,
        *extra.args,
        *own.args,
        *system.args,
        *conversation_args,
        *task.args,
    )
    return _checked(
        provider,
        Invocation(
            argv,
            {**options.env, **extra.env, **own.env},
            task.stdin,
            {**access.files, **system.files, **task.files},
            (*options.problems, *tools.problems, *own.problems),
            conversation if any(conversation in arg for arg in conversation_args) else "",
        ),
    )


def _own_agent(
    provider: Provider,
    agent: Agent,
    kind: str,
    mode: _InputMode,
    message: Message,
    extra: LaunchExtra,
    environ: Mapping[str, str],
) -> OwnAgent:
    """Return how the run uses its own agent, for providers that take one from a launcher."""
    if not own_delivery(provider, agent):
        return OwnAgent()
    from gascity.render.agent_launch import own_agent

    prompt = message.prompt if mode.mode != "none" else ""
    return own_agent(provider, agent, kind, prompt, environ, extra, MAX_ARG_BYTES)


def _shell_invocation(
    agent: Agent,
    resume_command: str,
    message: Message,
    mode: _InputMode,
    extra: LaunchExtra,
    file_path: FilePath,
) -> Invocation:
    """Return a user's own command; its input follows its last word.

    A `start_command` may run another program than the provider's, so it gets no input unless the
    agent sets `prompt_mode`.
    """
    if not resume_command:
        mode = _InputMode("none")
        if set_by_agent(agent, "prompt_mode"):
            mode = _InputMode(agent.settings.prompt_mode or "", agent.settings.prompt_flag or "")
    text = message.text if resume_command else _joined(message)
    task = _input(mode, text, file_path)
    command = (resume_command or agent.settings.start_command or "").rstrip()
    tail = (command + ' "$@"', "sh", *task.args) if task.args else (command,)
    return Invocation(("sh", "-c", *tail), extra.env, task.stdin, task.files)


def _shell_quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _input_mode(provider: Provider, agent: Agent, kind: str) -> _InputMode:
    """Return the agent's own mode, else the provider's for headless runs, else its general one."""
    facts = provider.facts
    special = facts.headless if kind == HEADLESS and facts.headless.prompt_mode else facts
    mode, flag = special.prompt_mode, special.prompt_flag
    if set_by_agent(agent, "prompt_mode"):
        mode = agent.settings.prompt_mode
    if set_by_agent(agent, "prompt_flag"):
        flag = agent.settings.prompt_flag
    separator = special.prompt_separator or facts.prompt_separator
    return _InputMode(mode or "", flag or "", separator or "")


def _conversation_args(
    provider: Provider, kind: str, conversation: str, resume: bool
) -> tuple[list[str], bool]:
    """Return the arguments that resume or name a conversation, and whether it is resumed.

    They follow all other flags: where `resume` is a subcommand, some flags are invalid after it.
    """
    facts = provider.facts
    resume_flag, id_flag = facts.resume_flag, facts.session_id_flag
    new_args: tuple[str, ...] = ()
    if kind == HEADLESS:
        special = facts.headless
        new_args = special.new_args
        # An empty flag of the headless table turns the general one off.
        resume_flag = resume_flag if special.resume_flag is None else special.resume_flag
        id_flag = id_flag if special.session_id_flag is None else special.session_id_flag
    if resume and conversation and resume_flag:
        return flag_args(resume_flag, conversation), True
    return [
        *new_args,
        *(flag_args(id_flag, conversation) if id_flag and conversation else ()),
    ], False


def _split_prompt(
    provider: Provider,
    kind: str,
    mode: _InputMode,
    message: Message,
    resumed: bool,
    file_path: FilePath,
) -> tuple[_Input, str]:
    """Return the prompt as a system prompt, if the provider has a flag for it, and the rest.

    A system prompt is not part of the conversation, so a resumed one gets it again.
    """
    if mode.mode == "none":
        return _Input(), ""
    if message.prompt and kind == HEADLESS:
        file_flag = provider.facts.headless.system_prompt_file_flag
        text_flag = provider.facts.headless.system_prompt_flag
        if file_flag:
            system = _input(_InputMode("file", file_flag), message.prompt, file_path, "prompt.md")
            return system, message.text
        if text_flag and _arg_bytes(text_flag + message.prompt) < MAX_ARG_BYTES:
            return _Input(tuple(flag_args(text_flag, message.prompt))), message.text
        pattern = provider.facts.headless.system_prompt_args
        args = tuple(fill_placeholders(arg, {"prompt": message.prompt}) for arg in pattern)
        if args and max(map(_arg_bytes, args)) < MAX_ARG_BYTES:
            return _Input(args), message.text
    return _Input(), message.text if resumed else _joined(message)


def _joined(message: Message) -> str:
    return "\n\n".join(part for part in (message.prompt.rstrip("\n"), message.text) if part)


def _input(mode: _InputMode, text: str, file_path: FilePath, name: str = "message.md") -> _Input:
    if not text or mode.mode == "none":
        return _Input()
    if mode.mode == "stdin":
        return _Input((mode.flag,) if mode.flag else (), text)
    if mode.mode == "file":
        return _Input(tuple(flag_args(mode.flag, file_path(name))), "", {name: text})
    # Without a separator a text that starts with a dash would be read as a flag.
    safe = " " + text if text.startswith("-") else text
    if mode.mode == "flag" and mode.flag:
        return _Input(tuple(flag_args(mode.flag, text if mode.flag.endswith("=") else safe)))
    return _Input((mode.separator, text) if mode.separator else (safe,))


def _checked(provider: Provider, invocation: Invocation) -> Invocation:
    """Add an error if the kernel would not accept the arguments or the environment."""
    env = (f"{key}={value}" for key, value in invocation.env.items())
    texts = [*invocation.argv, *env]
    reason = ""
    if any(_arg_bytes(text) >= MAX_ARG_BYTES for text in texts):
        reason = f"an argument or variable must be shorter than {MAX_ARG_BYTES} bytes"
    if any("\0" in text for text in texts):
        reason = "it contains a NUL character"
    if not reason:
        return invocation
    problem = Problem(
        "message-not-passed",
        f"the message or prompt cannot be passed to provider `{provider.name}`: {reason}",
        None,
        "shorten it, or put the long part into a file that the agent reads",
    )
    return invocation._replace(problems=(*invocation.problems, problem))


def _arg_bytes(text: str) -> int:
    """Return the size of an argument with its final NUL."""
    return len(text.encode("utf-8", "surrogateescape")) + 1
