"""Programs that a city needs: Python, git, tmux, and the providers of its agents."""

import os
import re
import sys
from collections.abc import Mapping

from gascity import __version__
from gascity.control.doctor.diagnosis import Diagnosis, DoctorContext
from gascity.control.paths import program_directory
from gascity.git import GitError
from gascity.git import run as run_git
from gascity.model.problems import Problem, warning
from gascity.model.provider import Provider
from gascity.paths import which
from gascity.providers.listing import ProviderCli
from gascity.runtimes import INTERACTIVE
from gascity.source.disk import read_plain
from gascity.store import store_engine

_GIT = (2, 38)  # the first version of `git merge-tree --write-tree`
_TIMEOUT = 10.0  # seconds that a provider may take to print its version
_PYTHON = re.compile(rb"^exec '?(/[^' ]+)", re.MULTILINE)


def check_python(context: DoctorContext) -> Diagnosis:
    """Check that the `city` on the PATH of sessions calls a Python that still exists."""
    version = ".".join(map(str, sys.version_info[:3]))
    message = f"city {__version__}, Python {version}, {store_engine()}"
    wrapper = f"{program_directory(context.root)}/city"
    found = _PYTHON.search(read_plain(wrapper) or b"")
    python = os.fsdecode(found[1]) if found else ""
    if not python or os.access(python, os.X_OK):
        return Diagnosis(message)
    problem = Problem(
        "program-missing",
        f"sessions call city with {python}, which does not exist any more",
        None,
        "run `city restart`, which writes the new path",
    )
    return Diagnosis(message, (problem,), "city restart")


def check_git(context: DoctorContext) -> Diagnosis:
    """Check that git is installed, and new enough."""
    try:
        text = run_git(["--version"], context.root, context.environ).out.decode()
    except GitError:
        text = ""
    found = re.search(r"(\d+)\.(\d+)\S*", text)
    if found is None:
        city = context.city
        needed = city is not None and (
            any(rig.git for rig in city.rigs) or any(each.remote for each in city.pack.imports)
        )
        message = "git is not installed" + ("; rigs and imported packs need it" if needed else "")
        severity = "error" if needed else "warning"
        problem = Problem("program-missing", message, None, "install git", severity)
        return Diagnosis("not installed", (problem,), "install git")
    if (int(found[1]), int(found[2])) >= _GIT:
        return Diagnosis(found[0])
    wanted = ".".join(map(str, _GIT))
    text = f"git {found[0]} is older than {wanted}, which `city work merge` needs"
    problem = warning("program-outdated", text, None, f"install git {wanted} or newer")
    return Diagnosis(found[0], (problem,), f"install git {wanted} or newer")


def check_tmux(context: DoctorContext) -> Diagnosis:
    """Report whether tmux is installed. Only sessions with a terminal need it."""
    path = which(INTERACTIVE, context.environ)
    if path is not None:
        return Diagnosis(path)
    needed = context.from_store(
        lambda store: any(session.interactive for session in store.sessions(live=True)), False
    )
    if not needed:
        return Diagnosis("not installed; only sessions with a terminal need it")
    text = "tmux is not installed; sessions with a terminal need it"
    problem = Problem("program-missing", text, None, "install tmux")
    return Diagnosis("not installed", (problem,), "install tmux")


def used_providers(context: DoctorContext) -> dict[str, list[str]]:
    """Return the providers that agents run with, and the agents that are not built in."""
    users: dict[str, list[str]] = {}
    city = context.city
    for agent in city.agents if city is not None else ():
        provider = city.provider_of(agent) if city is not None else None
        if provider is not None and provider.launches:
            names = users.setdefault(agent.provider, [])
            names += [str(agent.name)] if agent.layer != "built-in" else []
    return dict(sorted(users.items()))


def check_provider(context: DoctorContext, name: str, users: list[str]) -> Diagnosis:
    """Check a provider: its program, version and login, and where it asks for trust."""
    assert context.city is not None
    provider = context.city.providers.get(name)
    if provider is None:
        return Diagnosis("changed by a pack; not checked")
    program = provider.facts.command or ""
    path = which(program, context.environ, context.root)
    title = provider.facts.display_name or name
    if path is None:
        text = f"`{program}` is not on PATH"
        text += f"; agents that need it: {len(users)}" if users else ""
        fix = f"install {title}, or set `command` in [providers.{name}]"
        severity = "error" if users else "warning"
        problem = Problem("program-missing", text, None, fix, severity)
        return Diagnosis("not installed", (problem,), fix)
    version, reason = ProviderCli(provider, context.root, context.environ, _TIMEOUT).version()
    facts = [path, version or reason]
    if version and provider.facts.listing.seen not in (None, "", version):
        facts[1] += f" (tested with {provider.facts.listing.seen})"
    login, problems = _login(context, provider, title)
    facts += [login] if login else []
    facts += ["asks for trust in each new directory"] if provider.facts.trust.asks else []
    fix = problems[0].hint or "" if problems else ""
    return Diagnosis(", ".join(filter(None, facts)), problems, fix)


def _login(
    context: DoctorContext, provider: Provider, title: str
) -> tuple[str, tuple[Problem, ...]]:
    """Return how the user is logged in, as far as files and variables show."""
    facts = provider.facts.login
    if not facts.files and not facts.env:
        return "", ()
    environ = context.environ
    variable = next((name for name in facts.env if environ.get(name)), None)
    if variable is not None:
        return f"login: {variable}", ()
    paths = [_expanded(file, environ) for file in facts.files]
    if any(path and os.path.exists(path) for path in paths):
        return "logged in", ()
    if facts.keychain and sys.platform == "darwin":
        return "login unknown (may be in the keychain)", ()
    program = provider.facts.command or provider.name
    hint = f"run `{program}` once to log in"
    hint += f", or set {facts.env[0]}" if facts.env else ""
    text = f"no login of {title} was found on this machine"
    return "not logged in", (warning("not-logged-in", text, None, hint),)


def _expanded(file: str, environ: Mapping[str, str]) -> str:
    """Expand `~` and a variable at the start of a path; "" if it is not set."""
    start, _, rest = file.partition("/")
    start = environ.get("HOME", "") if start == "~" else environ.get(start.strip("${}"), "")
    return f"{start}/{rest}" if start else ""
