"""A session's world: its environment, what its process is handed, and how it is called."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from shutil import which

from gascity.apply.files import make_private, write_private
from gascity.control import places
from gascity.control.desk import Post
from gascity.materialise.furnish import Furnished
from gascity.model.city import City
from gascity.model.durations import seconds
from gascity.model.layers import DEFINITION, Layer, fold_field
from gascity.model.problems import CityError, Problem
from gascity.model.records import NamedTuple
from gascity.model.tables import SESSION
from gascity.model.work import Mail, Nudge, Session, Work
from gascity.render.argv import Invocation, Message, headless, interactive
from gascity.render.tool_flags import as_required
from gascity.render.variables import Scene, functions, variables
from gascity.runtimes.runtime import Order
from gascity.servers import launch_environment
from gascity.source.disk import Disk

Text = Callable[[str], str]

# Variables of a session that this process may itself have, and those of a terminal it is not in.
_OURS = ("CITY_", "GC_", "TMUX")


class Errand(NamedTuple):
    """What one run is for."""

    session: Session
    work: Work | None
    text: str  # the message; the agent's prompt comes from furnishing
    resume: bool
    about: str = ""  # of a run without work: what it is for
    by: float = 0.0  # until when its directory has to be ready, by the steady clock


class Launched(NamedTuple):
    """How a run is started, the files it is handed, and what its conversation will be called."""

    order: Order
    files: tuple[str, ...]
    conversation: str


def message_text(
    post: Post, work: Work | None, mail: Sequence[Mail], nudges: Sequence[Nudge]
) -> str:
    """What a run is told beside its prompt. A program's text is never added to."""
    if post.script:
        return work.body if work is not None else ""
    parts = [work.body] if work is not None else []
    if mail:
        letters = "\n\n".join(map(_letter, mail))
        count = "a new message" if len(mail) == 1 else f"{len(mail)} new messages"
        how = "`city mail reply ID TEXT` answers, `city mail archive ID` puts one away."
        parts.append(f"You have {count}.\n\n{letters}\n\n{how}")
    parts += [nudge.text for nudge in nudges]
    return "\n\n".join(parts)


def _letter(mail: Mail) -> str:
    """One message; a subject that is only the first line of it is not said twice."""
    head = f"From {mail.sender}, message {mail.id}:"
    if not mail.body.startswith(mail.subject.removesuffix("…")):
        head += f" {mail.subject}"
    return f"{head}\n{mail.body}"


def make_order(
    root: str, post: Post, errand: Errand, furnished: Furnished, environ: Mapping[str, str]
) -> Launched:
    """Write what a run is handed and say how it is started; CityError if it cannot be."""
    session = errand.session
    place = partial(places.handed, root, session.id, session.generation)
    expand = _expander(post, errand, furnished)
    called = _invocation(post, errand, furnished, place, expand)
    wrong = [one for one in as_required(post.city, called.problems) if one.is_error]
    if wrong:
        raise CityError(*wrong)
    files = {place(name): text for name, text in called.files.items()}
    stdin = place("stdin") if called.stdin else ""
    if stdin:
        files[stdin] = called.stdin
    for path, text in files.items():
        _hand(path, text)
    env = environment(root, post, errand, furnished, environ)
    env.update(called.env)
    order = Order(
        session=session.id,
        generation=session.generation,
        name=runtime_name(session),
        argv=called.argv,
        cwd=furnished.workdir,
        env=env,
        log=places.run_log(root, session.id, session.generation),
        exit_file=places.exit_file(root, session.id, session.generation),
        stdin=stdin,
        before=_commands(post, "pre_start", expand),
        setup=_setup(post, expand),
    )
    return Launched(order, tuple(files), called.conversation)


def _expander(post: Post, errand: Errand, furnished: Furnished) -> Text:
    """Fills in the names that commands share with prompts, with this session's values."""

    def expand(text: str) -> str:
        if "{{" not in text:
            return text
        from gascity.gotemplate import TemplateError, render_text

        scene = Scene(furnished.workdir, furnished.branch, session=errand.session.alias)
        known = variables(post.city, post.agent, scene)
        try:
            return render_text(text, known, functions=functions())
        except TemplateError as error:
            words = f"`{text}`: {error.message}"
            raise CityError(Problem("template-failed", words, None, error.hint or None)) from error

    return expand


def _invocation(
    post: Post,
    errand: Errand,
    furnished: Furnished,
    place: Callable[[str], str],
    expand: Text,
) -> Invocation:
    if post.provider is None:
        raise CityError(Problem("unknown-provider", f"there is no `{post.agent.provider}`"))
    agent, command = post.agent, post.agent.text("start_command")
    if "{{" in command:
        filled = Layer(DEFINITION, agent.home.directory, {"start_command": expand(command)})
        agent = agent._replace(layers=(*agent.layers, filled))
    call = interactive if errand.session.interactive else headless
    return call(
        post.provider,
        agent,
        Message(furnished.prompt, errand.text),
        conversation=errand.session.conversation,
        resume=errand.resume,
        extra=furnished.launch,
        place=place,
    )


def _hand(path: str, text: str) -> None:
    """Write a file for one run. It need not outlive the machine: the run does not either."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def _commands(post: Post, name: str, expand: Text) -> tuple[str, ...]:
    found = post.agent.value(name)
    return tuple(expand(str(one)) for one in found) if isinstance(found, tuple) else ()


def _setup(post: Post, expand: Text) -> tuple[str, ...]:
    """Commands that should run before it starts, each for as long as it may take."""
    from shlex import quote

    file = post.agent.text("session_setup_script")
    found = [
        *_commands(post, "session_setup", expand),
        *([quote(Disk(post.city.root).absolute(file))] if file else ()),
        *_commands(post, "session_live", expand),
    ]
    longest = seconds(fold_field(post.city.session, SESSION, "setup_timeout").value)
    bound = f"timeout {longest:g} " if longest and which("timeout") else ""
    return tuple(f"{bound}sh -c {quote(one)}" if bound else one for one in found)


def runtime_name(session: Session) -> str:
    """What a session is called where it runs: its agent, readable, and enough of its id."""
    agent = session.agent.replace("/", "--").replace(".", "__")
    return f"{agent}-{session.id[:8]}"


def environment(
    root: str, post: Post, errand: Errand, furnished: Furnished, environ: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a session, lowest layer first."""
    session, work = errand.session, errand.work
    host = {name: value for name, value in environ.items() if not name.startswith(_OURS)}
    workspace = post.city.workspace
    found = {**host}
    for layer in workspace:
        said = layer.values.get("env")
        found.update({str(k): str(v) for k, v in said.items()} if isinstance(said, Mapping) else {})
    found.update(post.provider.pairs("env") if post.provider else {})
    found = launch_environment(post.agent, found)
    found.update(furnished.env)
    name, rig = str(post.agent.name), post.agent.name.rig or ""
    item = work.id if work is not None else ""
    programs = places.program_directory(root)
    found.update(
        CITY_ROOT=root,
        CITY_AGENT=name,
        CITY_RIG=rig,
        CITY_SESSION_ID=session.id,
        CITY_GENERATION=str(session.generation),
        CITY_WORK_ID=item,
        CITY_WORKDIR=furnished.workdir,
        GC_CITY=post.city.name,
        GC_CITY_PATH=root,
        GC_CITY_ROOT=root,
        GC_AGENT=name,
        GC_RIG=rig,
        GC_RIG_ROOT=_rig_root(post.city, post),
        GC_SESSION_ID=session.id,
        GC_SESSION_NAME=runtime_name(session),
        GC_ALIAS=session.alias,
        GC_TEMPLATE=name,
        GC_BEAD_ID=item,
        GC_PACK_DIR=Disk(root).absolute(post.agent.home.pack),
        GC_BIN=f"{programs}/gc",
        PATH=f"{programs}{os.pathsep}{found.get('PATH', os.defpath)}",
    )
    return found


def _rig_root(city: City, post: Post) -> str:
    rig = city.rig_of(post.agent)
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
    """Put `city` and `gc` where sessions find them: this very installation."""
    from shlex import quote

    directory = places.program_directory(root)
    make_private(directory)
    for name, text in (("city", _CITY), ("gc", _GC)):
        data = text.format(python=quote(sys.executable)).encode()
        write_private(f"{directory}/{name}", data, 0o700)
