"""The command that starts one run of an agent, from its provider's facts. Nothing is written."""

from collections.abc import Callable, Mapping
from typing import Protocol

from gascity.model.city import Agent
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.render.options import chosen, own_args, written_by_agent
from gascity.render.tool_flags import HEADLESS, INTERACTIVE, put, tool_flags

LONGEST = 128 * 1024  # bytes of one argument or variable, with the NUL that ends it: Linux's limit

Place = Callable[[str], str]


class Message(NamedTuple):
    """What a run is told: who it is, and what it is to do (work, mail or nudges)."""

    prompt: str
    text: str


class Extra(Protocol):
    """What a launch gets beside the provider's own: trust, MCP servers."""

    @property
    def args(self) -> tuple[str, ...]: ...

    @property
    def env(self) -> Mapping[str, str]: ...


class Invocation(NamedTuple):
    """What is to be run. With an error among the problems it must not be.

    `env` comes over the agent's own environment, which has the provider's in it. `files` are
    texts by the name that `place` was asked for; they are private, and written before the start.
    `conversation` is the id to resume by, where it is known before the provider says it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    stdin: str = ""
    files: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()
    conversation: str = ""


class _Way(NamedTuple):
    """How a text gets in: `arg flag stdin file none`, behind which flag or separator."""

    mode: str
    flag: str = ""
    separator: str = ""


class _Handed(NamedTuple):
    """A text on its way in."""

    args: tuple[str, ...] = ()
    stdin: str = ""
    files: Mapping[str, str] = {}


def headless(
    provider: Provider,
    agent: Agent,
    message: Message,
    *,
    conversation: str,
    resume: bool,
    extra: Extra,
    place: Place,
) -> Invocation:
    """One run that ends by itself.

    `conversation` is the provider's id of the one to go on with, or a fresh UUID for a new one.
    A provider that cannot resume is started afresh, with the whole message.
    """
    return _started(HEADLESS, provider, agent, message, conversation, resume, extra, place)


def interactive(
    provider: Provider,
    agent: Agent,
    message: Message,
    *,
    conversation: str,
    resume: bool,
    extra: Extra,
    place: Place,
) -> Invocation:
    """A conversation in a terminal; otherwise as `headless`."""
    return _started(INTERACTIVE, provider, agent, message, conversation, resume, extra, place)


def _started(
    kind: str,
    provider: Provider,
    agent: Agent,
    message: Message,
    conversation: str,
    resume: bool,
    extra: Extra,
    place: Place,
) -> Invocation:
    own = agent.text("resume_command") if resume and conversation else ""
    tools = tool_flags(provider, agent, kind)
    way = _way(provider, agent, kind)
    if own or agent.text("start_command"):
        command = own.replace("{{.SessionKey}}", _quoted(conversation))
        made = _by_shell(agent, command, message, way, extra, place)
        return _checked(provider, made._replace(problems=tools.problems))
    options = chosen(provider, agent, kind)
    named, resumed = _conversation(provider, kind, conversation, resume)
    told = message._replace(prompt="") if provider.value("script") else message
    system, text = _parted(provider, kind, way, told, resumed, place)
    handed = _handed(way, text, place)
    argv = (
        provider.text("command"),
        *own_args(provider, agent, kind),
        *options.args,
        *tools.args,
        *extra.args,
        *system.args,
        *named,
        *handed.args,
    )
    env = {**options.env, **extra.env}
    files = {**system.files, **handed.files}
    problems = (*options.problems, *tools.problems)
    known = conversation if any(conversation in word for word in named) else ""
    return _checked(provider, Invocation(argv, env, handed.stdin, files, problems, known))


def _by_shell(
    agent: Agent, resume: str, message: Message, way: _Way, extra: Extra, place: Place
) -> Invocation:
    """A command that a person wrote; what it is handed comes after its last word.

    One that starts something else than the provider is handed nothing unless the agent says how.
    """
    if not resume:
        way = _Way(agent.text("prompt_mode"), agent.text("prompt_flag"))
        way = way if written_by_agent(agent, "prompt_mode") else _Way("none")
    handed = _handed(way, message.text if resume else _joined(message), place)
    command = (resume or agent.text("start_command")).rstrip()
    tail = (command + ' "$@"', "sh", *handed.args) if handed.args else (command,)
    return Invocation(("sh", "-c", *tail), extra.env, handed.stdin, handed.files)


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _way(provider: Provider, agent: Agent, kind: str) -> _Way:
    """An agent's own words count before those for one-shot runs, and these before the shared."""

    def fact(name: str) -> str:
        if name in ("prompt_mode", "prompt_flag") and written_by_agent(agent, name):
            return agent.text(name)
        apart = kind == HEADLESS and bool(provider.text("headless.prompt_mode"))
        return provider.text(f"headless.{name}") if apart else provider.text(name)

    separator = fact("prompt_separator") or provider.text("prompt_separator")
    return _Way(fact("prompt_mode"), fact("prompt_flag"), separator)


def _conversation(
    provider: Provider, kind: str, conversation: str, resume: bool
) -> tuple[list[str], bool]:
    """What names the conversation, and whether it is gone on with.

    It comes behind all other flags: where it is a subcommand, some are refused after it.
    """
    apart = provider.value("headless.resume_flag") if kind == HEADLESS else None
    flag = provider.text("resume_flag") if apart is None else str(apart)
    if not (resume and conversation and flag):
        return _named(provider, kind, conversation), False
    return put(flag, conversation), True


def _named(provider: Provider, kind: str, conversation: str) -> list[str]:
    """What begins a conversation, with the name it shall have where the provider takes one."""
    flag = provider.text("session_id_flag")
    more: tuple[str, ...] = ()
    if kind == HEADLESS:
        more = provider.strings("headless.new_args")
        apart = provider.value("headless.session_id_flag")
        flag = flag if apart is None else str(apart)
    return [*more, *(put(flag, conversation) if flag and conversation else ())]


def _parted(
    provider: Provider, kind: str, way: _Way, message: Message, resumed: bool, place: Place
) -> tuple[_Handed, str]:
    """The prompt on a way of its own, where there is one, and what is left to be said.

    A system prompt is not part of the conversation, so it is given again when that goes on.
    """
    if way.mode == "none":
        return _Handed(), ""
    by_file, by_flag = (
        provider.text(f"headless.{name}") if kind == HEADLESS else ""
        for name in ("system_prompt_file_flag", "system_prompt_flag")
    )
    if message.prompt and by_file:
        return _handed(_Way("file", by_file), message.prompt, place, "prompt.md"), message.text
    if message.prompt and by_flag and _size(by_flag + message.prompt) < LONGEST:
        return _Handed(tuple(put(by_flag, message.prompt))), message.text
    return _Handed(), message.text if resumed else _joined(message)


def _joined(message: Message) -> str:
    return "\n\n".join(part for part in (message.prompt.rstrip("\n"), message.text) if part)


def _handed(way: _Way, text: str, place: Place, name: str = "message.md") -> _Handed:
    if not text or way.mode == "none":
        return _Handed()
    if way.mode == "stdin":
        return _Handed((way.flag,) if way.flag else (), text)
    if way.mode == "file":
        return _Handed(tuple(put(way.flag, place(name))), "", {name: text})
    # Without a separator a text that begins with a dash would be taken for a flag.
    safe = " " + text if text.startswith("-") else text
    if way.mode == "flag" and way.flag:
        return _Handed(tuple(put(way.flag, text if way.flag.endswith("=") else safe)))
    return _Handed((way.separator, text) if way.separator else (safe,))


def _checked(provider: Provider, made: Invocation) -> Invocation:
    """The same, with an error if the kernel would not take it."""
    whole = [*made.argv, *(f"{key}={value}" for key, value in made.env.items())]
    reason = ""
    if any(_size(one) >= LONGEST for one in whole):
        reason = f"one argument or variable may have less than {LONGEST} bytes"
    if any("\0" in one for one in whole):
        reason = "there is a NUL character in it"
    if not reason:
        return made
    words = f"provider `{provider.name}` cannot be handed this message or prompt: {reason}"
    hint = "make it shorter, or put the long part into a file that the agent reads"
    return made._replace(
        problems=(*made.problems, Problem("message-not-passed", words, None, hint))
    )


def _size(text: str) -> int:
    """Bytes of an argument with its end."""
    return len(text.encode("utf-8", "surrogateescape")) + 1
