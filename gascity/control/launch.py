"""Build a run's command line, environment and temporary files."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from gascity.control import paths
from gascity.control.callers import new_secret
from gascity.control.live_state import ActiveRun, PendingStart
from gascity.control.run_config import AgentRunConfig
from gascity.files import make_private_directory, reuse_file, write_file
from gascity.mcp.servers import launch_environment
from gascity.model.city import City
from gascity.model.layers import DEFINITION, Layer
from gascity.model.problems import CityError, Problem
from gascity.model.secrets import names_in
from gascity.model.session_context import SessionContext
from gascity.model.work import Mail, Nudge, Session, Work
from gascity.paths import which
from gascity.render.argv import Invocation, Message, build_invocation
from gascity.render.flags import HEADLESS, INTERACTIVE, as_required
from gascity.render.variables import functions, variables
from gascity.runtimes import TERMINAL_VARIABLES
from gascity.runtimes.port import RunSpec
from gascity.source.disk import Disk
from gascity.workdir.prepare_session import PreparedSession

Text = Callable[[str], str]

# Removed from the environment: variables of a session or terminal that the controller runs in.
_OURS = ("CITY_", "GC_", TERMINAL_VARIABLES)
# Never withheld, whatever server refers to them: no program works without them.
_OF_EVERY_SESSION = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_ALL LC_CTYPE TZ TERM TMPDIR".split()
)


class RunLaunch(NamedTuple):
    """The run to spawn, the temporary files written for it, its conversation id and its token."""

    spec: RunSpec
    files: tuple[str, ...]
    conversation: str
    token: str  # hash of the secret in its environment


def message_text(
    config: AgentRunConfig, work: Work | None, mail: Sequence[Mail], nudges: Sequence[Nudge]
) -> str:
    """Return the message for a run, beside its prompt. A script gets its item unchanged."""
    if config.script:
        return work.body if work is not None else ""
    parts = [work.body] if work is not None else []
    if mail:
        letters = "\n\n".join(map(_letter, mail))
        count = "a new message" if len(mail) == 1 else f"{len(mail)} new messages"
        how = "Reply with `city mail reply ID TEXT`; archive with `city mail archive ID`."
        parts.append(f"You have {count}.\n\n{letters}\n\n{how}")
    parts += [nudge.text for nudge in nudges]
    return "\n\n".join(parts)


def _letter(mail: Mail) -> str:
    """Format one message; leave out a subject that only repeats the first line."""
    head = f"From {mail.sender}, message {mail.id}:"
    if not mail.body.startswith(mail.subject.removesuffix("…")):
        head += f" {mail.subject}"
    return f"{head}\n{mail.body}"


def make_run_spec(
    root: str,
    config: AgentRunConfig,
    pending: PendingStart,
    prepared: PreparedSession,
    environ: Mapping[str, str],
    reuse: ActiveRun | None = None,
) -> RunLaunch:
    """Write a run's files and return how to spawn it; CityError if it cannot be.

    `reuse` is an ended run whose outcome is recorded: its files may become those of the new run.
    """
    env = environment(root, config, pending, prepared, environ)
    session = pending.session
    if pending.resume and session.interactive and not _is_saved(config, session.conversation, env):
        # It never began; the output of headless runs tells. A new id: some providers refuse the old
        # one even for a new start.
        session = session._replace(conversation=str(uuid4()))
        pending = pending._replace(session=session, resume=False)
    place = partial(paths.handed, root, session.id, session.generation)
    expand = _expander(config, pending, prepared)
    invocation = _invocation(config, pending, prepared, place, expand, env)
    problems = as_required(config.city, invocation.problems)
    wrong = [problem for problem in problems if problem.is_error]
    if wrong:
        raise CityError(*wrong)
    files = {place(name): text for name, text in invocation.files.items()}
    unneeded = iter(reuse.files if reuse is not None else ())
    for path, text in files.items():
        _hand(path, text, next(unneeded, ""))
    env.update(invocation.env)
    secret, token = new_secret()
    env["CITY_SESSION_TOKEN"] = secret
    spec = RunSpec(
        session=session.id,
        generation=session.generation,
        name=runtime_name(session),
        argv=invocation.argv,
        cwd=prepared.workdir,
        env=env,
        log=paths.run_log(root, session.id, session.generation),
        exit_file=paths.exit_file(root, session.id, session.generation),
        stdin=invocation.stdin,
        before=tuple(map(expand, config.agent.settings.pre_start)),
        setup=_setup(config, expand, env),
        own_directory=works_alone(root, config, prepared.workdir),
        reuse=reuse.handle if reuse is not None else None,
    )
    return RunLaunch(spec, tuple(files), invocation.conversation, token)


def works_alone(root: str, config: AgentRunConfig, workdir: str) -> bool:
    """Return whether a directory is one that city gives to one session at a time."""
    return workdir.startswith(f"{root}/.gc/") and not config.agent.settings.work_dir


def _is_saved(config: AgentRunConfig, conversation: str, env: Mapping[str, str]) -> bool:
    """Return whether the provider has saved a conversation; True if that is not known."""
    from glob import escape, iglob
    from re import search

    facts = config.provider.facts.conversation if config.provider is not None else None
    settings = config.agent.settings
    if facts is None or not facts.file or settings.start_command or settings.resume_command:
        return True
    home = env.get(facts.home_env or "") or f"{env.get('HOME', '')}/{facts.home or ''}"
    name = facts.file.replace("{id8}", escape(conversation[:8]))
    for path in iglob(f"{escape(home)}/{name.replace('{id}', escape(conversation))}"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                if not facts.pattern or any(search(facts.pattern, line) for line in file):
                    return True
        except OSError:
            return True  # it exists; the provider reports what is wrong with it
    return False


def _expander(config: AgentRunConfig, pending: PendingStart, prepared: PreparedSession) -> Text:
    """Return a function that fills in the template variables of commands for this session."""

    def expand(text: str) -> str:
        if "{{" not in text:
            return text
        from gascity.gotemplate import TemplateError, render_text

        scene = SessionContext(prepared.workdir, prepared.branch, session=pending.session.alias)
        known = variables(config.city, config.agent, scene)
        try:
            return render_text(text, known, functions=functions())
        except TemplateError as error:
            words = f"`{text}`: {error.message}"
            raise CityError(Problem("template-failed", words, None, error.hint or None)) from error

    return expand


def _invocation(
    config: AgentRunConfig,
    pending: PendingStart,
    prepared: PreparedSession,
    place: Callable[[str], str],
    expand: Text,
    env: Mapping[str, str],
) -> Invocation:
    if config.provider is None:
        raise CityError(Problem("unknown-provider", f"there is no `{config.agent.provider}`"))
    agent, command = config.agent, config.agent.settings.start_command or ""
    if "{{" in command:
        filled = Layer(DEFINITION, agent.home.directory, {"start_command": expand(command)})
        agent = agent.replace(layers=(*agent.layers, filled))
    return build_invocation(
        INTERACTIVE if pending.session.interactive else HEADLESS,
        config.provider,
        agent,
        Message(prepared.prompt, pending.text),
        conversation=pending.session.conversation,
        resume=pending.resume,
        extra=prepared.launch,
        file_path=place,
        environ=env,
    )


def _hand(path: str, text: str, unneeded: str) -> None:
    """Write a file for one run, into the file of an ended run if possible.

    No fsync: the run does not survive a power failure either.
    """
    data = text.encode("utf-8", "surrogateescape")
    file = reuse_file(unneeded, path, data) if unneeded else None
    if file is not None:
        os.close(file)
        return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_file(path, data, durable=False)


def _setup(config: AgentRunConfig, expand: Text, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the setup commands of a run, each with its timeout."""
    from shlex import quote

    settings = config.agent.settings
    file = settings.session_setup_script
    commands = [
        *map(expand, settings.session_setup),
        *([quote(Disk(config.city.root).absolute(file))] if file else ()),
        *map(expand, settings.session_live),
    ]
    longest = config.city.session.setup_timeout
    return tuple(
        with_timeout(command, longest, env) if longest else command for command in commands
    )


# `timeout SECONDS sh -c COMMAND`, where that program does not exist, as on macOS.
_TIMER = """\
import subprocess, sys
child = subprocess.Popen(["sh", "-c", sys.argv[2]], start_new_session=True)
try:
    code = child.wait(float(sys.argv[1]))
except subprocess.TimeoutExpired:
    import os, signal
    os.killpg(child.pid, signal.SIGTERM)
    code = 124
sys.exit(code if code >= 0 else 128 - code)
"""


def with_timeout(command: str, seconds: float, env: Mapping[str, str]) -> str:
    """Return a shell command that ends with status 124 if `command` takes longer."""
    from shlex import quote

    if which("timeout", env):
        return f"timeout {seconds:g} sh -c {quote(command)}"
    return f"{quote(sys.executable)} -c {quote(_TIMER)} {seconds:g} {quote(command)}"


def runtime_name(session: Session) -> str:
    """Return a session's name in its runtime: readable, and unique by the start of its id."""
    agent = session.agent.replace("/", "--").replace(".", "__")
    return f"{agent}-{session.id[:8]}"


def environment(
    root: str,
    config: AgentRunConfig,
    pending: PendingStart,
    prepared: PreparedSession,
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of a session, lowest layer first."""
    session, work = pending.session, pending.work
    hidden = _hidden_variables(config, prepared)
    host = {
        name: value
        for name, value in environ.items()
        if not name.startswith(_OURS) and name not in hidden
    }
    environment = {**host, **config.city.workspace.env}
    environment.update(config.provider.facts.env if config.provider else {})
    environment = launch_environment(config.agent, environment)
    environment.update(prepared.env)
    name, rig = str(config.agent.name), config.agent.name.rig or ""
    item = work.id if work is not None else ""
    programs = paths.program_directory(root)
    environment.update(
        CITY_ROOT=root,
        CITY_AGENT=name,
        CITY_RIG=rig,
        CITY_SESSION_ID=session.id,
        CITY_GENERATION=str(session.generation),
        CITY_WORK_ID=item,
        CITY_WORKDIR=prepared.workdir,
        GC_CITY=config.city.name,
        GC_CITY_PATH=root,
        GC_CITY_ROOT=root,
        GC_AGENT=name,
        GC_RIG=rig,
        GC_RIG_ROOT=_rig_root(config.city, config),
        GC_SESSION_ID=session.id,
        GC_SESSION_NAME=runtime_name(session),
        GC_ALIAS=session.alias,
        GC_TEMPLATE=name,
        GC_BEAD_ID=item,
        GC_PACK_DIR=Disk(root).absolute(config.agent.home.pack),
        GC_BIN=f"{programs}/gc",
        PATH=f"{programs}{os.pathsep}{environment.get('PATH', os.defpath)}",
    )
    return environment


def _hidden_variables(config: AgentRunConfig, prepared: PreparedSession) -> set[str]:
    """Return variables that only servers behind the gateway need, so the session gets none of them.

    Variables that the agent's own `env` refers to, those of a login and those of the system stay.
    """
    hidden = set(prepared.launch.withheld) - _OF_EVERY_SESSION
    if not hidden:
        return hidden
    login = config.provider.facts.login.env if config.provider is not None else ()
    own = (name for text in config.agent.settings.env.values() for name in names_in(text))
    return hidden.difference(login, own)


def _rig_root(city: City, config: AgentRunConfig) -> str:
    rig = city.rig_of(config.agent)
    return Disk(city.root).absolute(rig.path) if rig is not None and rig.path else ""


_CITY = """\
#!/bin/sh
exec {python} -P -m gascity "$@"
"""
_GC = """\
#!/bin/sh
exec {python} -P -c 'import sys; sys.argv[0] = "gc"; import gascity.__main__ as m; m.main()' "$@"
"""


def write_programs(root: str) -> None:
    """Write `city` and `gc` wrappers that call this installation, for the PATH of sessions."""
    from shlex import quote

    directory = paths.program_directory(root)
    make_private_directory(directory)
    for name, text in (("city", _CITY), ("gc", _GC)):
        data = text.format(python=quote(sys.executable)).encode()
        write_file(f"{directory}/{name}", data, 0o700)
