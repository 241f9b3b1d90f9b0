"""Collects the live values of HUD sections: work, git, agents, mail, files, commands.

Each source is asked once for all sections of an agent. A source that fails keeps its last value.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gascity.git import environment as git_environment
from gascity.hud.commands import MAX_BYTES, SourceError, bounded_output
from gascity.hud.context import context_values
from gascity.hud.files import file_values
from gascity.hud.state import read_state, state_file, update_state
from gascity.model.city import Agent
from gascity.model.hud import COMMAND_SOURCE, FILE_SOURCE, HudSection
from gascity.model.names import allowed
from gascity.model.problems import Problem, warning
from gascity.model.session_context import SessionContext
from gascity.model.values import JsonObject, TableView, as_integer, as_number, format_duration
from gascity.model.work import CLAIMED, OPEN, status_word
from gascity.paths import git_top
from gascity.render.hud import ParsedSection
from gascity.render.run_output import clean
from gascity.render.variables import variables
from gascity.source.disk import is_below
from gascity.store import open_store, store_exists
from gascity.store.port import StoreError

if TYPE_CHECKING:
    from gascity.prompts import Prompts
    from gascity.store.port import Store

_MAX_TASKS = 50
_GIT_BYTES = 1 << 20
_INT64 = 1 << 63


class SectionValues(NamedTuple):
    """The values of one section, the age of the oldest in seconds, and problems with sources."""

    values: Mapping[str, object]
    age: int = 0
    problems: tuple[Problem, ...] = ()


class _Answer(NamedTuple):
    """Answer of a source: values with their age, and the error if it failed."""

    values: Mapping[str, object]
    age: float = 0.0
    failure: str = ""


class LiveData:
    """The live values of one agent's sections. Close it after use."""

    def __init__(
        self,
        prompts: "Prompts",
        agent: Agent,
        session: SessionContext,
        environ: Mapping[str, str],
    ) -> None:
        self.prompts = prompts
        self.city = prompts.city
        self.agent = agent
        self.name = str(agent.name)
        self.session = session
        self.environ = environ
        self.now = time.time()
        self._store: Store | None = None
        self._answers: dict[str, _Answer] = {}
        self._state = state_file(self.city.root, "values", self.name, session.work_dir)
        self._last = read_state(self._state)
        self._new: JsonObject = {}
        self._sources: Mapping[str, Callable[[], JsonObject]] = {
            "context": self._context,
            "tasks": self._tasks,
            "git": self._git,
            "pool": self._pool,
            "mail": self._mail,
        }

    def close(self) -> None:
        """Close the store, and save the values for a time when their source fails."""
        if self._store is not None:
            self._store.close()
        if self._new:
            update_state(self._state, lambda before: {**before, **self._new})

    @property
    def percentage(self) -> int | None:
        """Return how much of the context is used; None if it is unknown or no section needs it."""
        answer = self._answers.get("context", _Answer({}))
        return as_integer(TableView(answer.values).inner("Context").values.get("Percentage"))

    def of(self, parsed: ParsedSection) -> SectionValues:
        """Return the values of a section."""
        section = parsed.section
        values: JsonObject = dict(variables(self.city, self.agent, self.session))
        problems: list[Problem] = []
        ages = [0.0]
        globs: list[str] = []
        for source in sorted(parsed.sources):
            if source in (FILE_SOURCE, COMMAND_SOURCE):
                continue  # the template names it; the front matter says which one
            if source.startswith(FILE_SOURCE):
                globs.append(source.removeprefix(FILE_SOURCE))
                continue
            answer = self._answer(source, section, problems)
            values.update(answer.values)
            ages.append(answer.age)
            if answer.failure:
                problems.append(_failed_source(section, source, answer))
        if globs:
            values["Files"] = file_values(globs, (self.session.work_dir, self.city.root))
        values["Age"] = age = int(max(ages))
        return SectionValues(values, age, tuple(problems))

    def _answer(self, source: str, section: HudSection, problems: list[Problem]) -> _Answer:
        collect = self._sources.get(source)
        if source.startswith(COMMAND_SOURCE):
            refusal = command_problem(section, self.city.root)
            if refusal is not None:
                problems.append(refusal)
                return _Answer({})
            collect = lambda: self._command(section, problems)  # noqa: E731
            source = f"{source} {section.pack}"
        if collect is None:  # session: its variables are always there
            return _Answer({})
        if source not in self._answers:
            self._answers[source] = self._ask(source, collect)
        return self._answers[source]

    def _ask(self, source: str, collect: Callable[[], JsonObject]) -> _Answer:
        """Return the values of a source; its last ones if it fails."""
        try:
            values = collect()
        except SourceError as error:
            last = TableView(self._last).inner(source)
            kept = last.table("values")
            if kept is None:
                return _Answer({}, failure=str(error))
            age = max(self.now - (as_number(last.values.get("at")) or 0.0), 1.0)
            return _Answer(kept.values, age, str(error))
        if source != "context":  # an old value of another conversation would be wrong
            self._new[source] = {"at": self.now, "values": values}
        return _Answer(values)

    # Sources

    def _open_store(self) -> "Store | None":
        try:
            if self._store is None and store_exists(self.city.root):
                self._store = open_store(self.city.root)
        except StoreError as error:
            raise SourceError(f"cannot be read: {error.message}") from None
        return self._store

    def _ask_store(
        self, question: Callable[["Store"], JsonObject], empty: JsonObject
    ) -> JsonObject:
        store = self._open_store()
        try:
            return question(store) if store is not None else empty
        except StoreError as error:
            raise SourceError(f"cannot be read: {error.message}") from None

    def _context(self) -> JsonObject:
        provider = self.city.provider_of(self.agent)
        if provider is None or not self.session.id:
            return {}
        facts = provider.facts
        return self._ask_store(lambda store: context_values(store, self.session.id, facts), {})

    def _tasks(self) -> JsonObject:
        def ask(store: "Store") -> JsonObject:
            items = store.list_work(agent=self.name, status=(OPEN, CLAIMED), limit=_MAX_TASKS)
            items.sort(key=lambda work: (work.status != CLAIMED, work.priority, work.created))
            counts = store.work_counts(self.name)
            return {
                "Tasks": [
                    {
                        "ID": work.id,
                        "Title": clean(work.title, 200),
                        "Status": status_word(work.status),
                        "Priority": work.priority,
                    }
                    for work in items
                ],
                "TaskCounts": {status_word(key).title(): n for key, n in counts.items()},
            }

        words = ("Queued", "Running", "Done", "Failed", "Cancelled")
        return self._ask_store(ask, {"Tasks": [], "TaskCounts": dict.fromkeys(words, 0)})

    def _mail(self) -> JsonObject:
        names = [self.name, *filter(None, (self.session.id, self.session.session))]
        return self._ask_store(
            lambda store: {"Mail": {"Unread": store.count_inbox(names, unread=True)}},
            {"Mail": {"Unread": 0}},
        )

    def _pool(self) -> JsonObject:
        def ask(store: "Store") -> JsonObject:
            live = [session.agent for session in store.sessions(live=True)]
            return {"Pool": list(self._pool_rows(live, store.open_counts()))}

        return self._ask_store(ask, {"Pool": list(self._pool_rows([], {}))})

    def _pool_rows(self, live: list[str], queued: Mapping[str, int]) -> Iterator[JsonObject]:
        """Yield a row per agent that this one may see; hidden agents do not exist for it."""
        for agent in self.prompts.whole_city().agents:
            name = str(agent.name)
            names = (name, agent.name.without_rig, agent.name.bare)
            is_seen = allowed(names, self.agent.settings.agents_filter)
            if name != self.name and (agent.settings.hidden or agent.broken or not is_seen):
                continue
            row = {"Agent": name, "Live": live.count(name), "Queued": queued.get(name, 0)}
            most = agent.settings.max_active_sessions
            yield row if most is None or most < 0 else {**row, "Max": most}

    def _git(self) -> JsonObject:
        directory = self.session.work_dir
        if not os.path.isdir(directory) or git_top(directory) is None:
            return {}
        environ = git_environment(self.environ)
        status = ["git", "status", "--porcelain=v2", "--branch"]
        output, _ = bounded_output(status, directory, environ, _GIT_BYTES)
        git = {"Branch": "", "LastCommit": ""}
        counts = {"Changed": 0, "Ahead": 0, "Behind": 0}
        for line in output.splitlines():
            key, _, value = line.removeprefix("# ").partition(" ")
            if not line.startswith("# "):
                counts["Changed"] += 1
            elif key == "branch.head":
                git["Branch"] = value
            elif key == "branch.ab":
                ahead, _, behind = value.partition(" ")
                counts["Ahead"], counts["Behind"] = int(ahead), -int(behind)
        if "# branch.oid (initial)" not in output:
            log = ["git", "log", "-1", "--format=%h %s"]
            git["LastCommit"] = clean(bounded_output(log, directory, environ)[0], 200)
        return {"Git": {**git, **counts}}

    def _command(self, section: HudSection, problems: list[Problem]) -> JsonObject:
        path = _command_file(section, self.city.root)
        directory = self.session.work_dir
        if not os.path.isdir(directory):
            directory = self.city.root
        environ = {**self.environ, "CITY_ROOT": self.city.root, "PWD": directory}
        text, is_cut = bounded_output([path], directory, environ)
        if is_cut:
            message = f"the command printed more than {MAX_BYTES:,} bytes; the rest is cut off"
            problems.append(warning("hud-source-failed", message, section.place("data-sources")))
        return {"Command": _json_or_text(text)}


def _failed_source(section: HudSection, source: str, answer: _Answer) -> Problem:
    name = source.removeprefix(COMMAND_SOURCE)
    shown = f"showing the value of {format_duration(answer.age)} ago" if answer.age else "no value"
    message = f"HUD section `{section.name}`: `{name}` {answer.failure}; {shown}"
    return warning("hud-source-failed", message, section.place("data-sources"))


def _command_of(section: HudSection) -> str:
    sources = (source for source in section.data_sources if source.startswith(COMMAND_SOURCE))
    return next(sources, "").removeprefix(COMMAND_SOURCE)


def _command_file(section: HudSection, root: str) -> str:
    return os.path.normpath(os.path.join(root, section.pack, _command_of(section)))


def command_problem(section: HudSection, root: str) -> Problem | None:
    """Return why a section's command must not or cannot run; None if it can, or has none."""
    command = _command_of(section)
    place = section.place("data-sources")
    if not command:
        return None
    if not section.accepted:
        message = f"`{command}` does not run: you have not accepted what its pack can execute"
        hint = "review it: `city pack list`; then run `city pack accept`"
        return warning("not-accepted", message, place, hint)
    file = os.path.realpath(_command_file(section, root))
    if not is_below(file, os.path.realpath(os.path.join(root, section.pack))):
        reason, hint = "is outside its pack", "copy it into the pack"
    elif not os.path.isfile(file):
        reason, hint = "does not exist", "paths are relative to the pack"
    elif not os.access(file, os.X_OK):
        reason, hint = "is not executable", f"run `chmod +x {command}`"
    else:
        return None
    problem = Problem("bad-hud", f"command `{command}` {reason}", place, hint)
    return problem if section.pack == "." else problem.softened()


def _json_or_text(text: str) -> object:
    """Return the value of JSON, with numbers that a template can use; other output as text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text, parse_int=_integer, parse_constant=_no_number)
        except (ValueError, RecursionError):
            pass
    return clean(text, MAX_BYTES)


def _integer(digits: str) -> int | str:
    if len(digits) > 20:
        return digits
    number = int(digits)
    return number if -_INT64 <= number < _INT64 else digits


def _no_number(word: str) -> object:
    raise ValueError(word)
