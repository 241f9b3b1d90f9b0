"""An agent's scope of tools in its provider's own flags, and what those cannot say."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from gascity.model.city import Agent, City
from gascity.model.layers import fold_field
from gascity.model.problems import ERROR, Problem, warning
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.model.tables import SECURITY

HEADLESS, INTERACTIVE = "headless", "interactive"
UNENFORCEABLE = "unenforceable-scope"
NEUTRAL = ("read", "edit", "write", "shell", "search", "fetch")
_SHAPE = r"(?P<name>[^()/]*)(?:\((?P<glob>.*)\)|/(?P<tool>.*))?"


class Flags(NamedTuple):
    """Arguments that hold a run to its scope, and problems for what they leave open."""

    args: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def restricted(agent: Agent) -> bool:
    """Has the agent a scope of tools at all?"""
    return agent.value("tools.allow") is not None or any(
        agent.value(f"tools.{word}") for word in ("deny", "ask")
    )


def only_tools(agent: Agent) -> tuple[str, ...] | None:
    """The tools it may use, and no others; None: all that are not denied."""
    found = agent.value("tools.allow")
    if "*" in _refused(agent)[0]:
        return ()
    if not isinstance(found, (list, tuple)) or "*" in found:
        return None
    return _strings(found)


def scope_problems(city: City) -> list[Problem]:
    """What providers cannot hold the city's agents to, in any kind of run that they have."""
    found: dict[Problem, None] = {}
    for agent in city.agents:
        provider = city.providers.get(agent.provider)
        if provider is not None and not agent.broken and restricted(agent):
            kinds = [HEADLESS] if provider.headless else []
            kinds += [INTERACTIVE] if provider.value("interactive") else []
            for kind in kinds:
                found.update(dict.fromkeys(tool_flags(provider, agent, kind).problems))
    return as_required(city, found)


def as_required(city: City, problems: Iterable[Problem]) -> list[Problem]:
    """The same, with scopes that are not enforced as errors where the city wants them enforced."""
    wanted = fold_field(city.security, SECURITY, "require_enforcement").value
    return [
        one._replace(severity=ERROR) if wanted and one.code == UNENFORCEABLE else one
        for one in problems
    ]


def tool_flags(provider: Provider, agent: Agent, kind: str) -> Flags:
    """The flags for `[tools]` in one kind of run.

    Where nobody can be asked, what needs asking is denied. What a provider would do unasked though
    it is not in `tools.allow` is denied too. Each setting that stays open is a problem.
    """
    if not restricted(agent) or provider.value("script"):  # a script has no tools
        return Flags()
    if agent.text("start_command"):
        provider = provider._replace(layers=(), folded={})
    says = _Says(provider, kind)
    allow, (deny, ask) = only_tools(agent), _refused(agent)
    args: list[str] = []
    problems: list[Problem] = []
    if allow is not None:
        more, lost = _allowed(says, allow)
        args += more
        barred = "*" in deny
        lost = ["*"] if barred and lost else lost
        problems += _open(provider, agent, "deny" if barred else "allow", lost)
        deny = tuple(word for word in deny if word != "*")
    refused = [*deny, *(ask if kind == HEADLESS else ())]
    more, lost = _denied(says, refused, () if allow is None else _rest(says, allow))
    args += more
    problems += _open(provider, agent, "deny", [word for word in lost if word in deny])
    asked = [word for word in ask if kind == INTERACTIVE or word in lost]
    problems += _open(provider, agent, "ask", asked)
    return Flags(tuple(args), tuple(problems))


class _Says(NamedTuple):
    """A provider's facts about flags for tools, as far as they hold for a kind of run."""

    provider: Provider
    kind: str

    def flag(self, name: str) -> str:
        fits = self.provider.text("tools.only") in ("", self.kind)
        return self.provider.text(f"tools.{name}") if fits else ""

    @property
    def names(self) -> dict[str, str]:
        return self.provider.pairs("tools.names")

    def native(self, word: str) -> list[str]:
        """A neutral word in the provider's; nothing where it has none for it."""
        found = re.fullmatch(_SHAPE, word, re.DOTALL)
        if found is None:
            return []
        if found["tool"] is not None:
            return self._of_server(found["name"], found["tool"])
        if found["glob"] is not None:
            return self._of_shell(found["name"], found["glob"])
        if _is_glob(word):
            return [self.names[one] for one in NEUTRAL if one in self.names and _fits(one, word)]
        if word in NEUTRAL:
            return [self.names[word]] if word in self.names else []
        return [self.names.get(word, word)]

    def _of_server(self, server: str, tool: str) -> list[str]:
        fact = self.provider.text("tools.server" if tool == "*" else "tools.server_tool")
        if not fact or _is_glob(server) or (tool != "*" and _is_glob(tool)):
            return []
        return [fact.replace("{server}", server).replace("{tool}", tool)]

    def _of_shell(self, name: str, glob: str) -> list[str]:
        """A pattern with `{prefix}` in it can only name a command by its first words."""
        fact = self.provider.text("tools.shell_pattern") if name == "shell" else ""
        if "{prefix}" not in fact:
            return [fact.replace("{glob}", glob)] if fact else []
        prefix = glob.removesuffix(" *")
        if prefix == glob or _is_glob(prefix):
            return []
        return [fact.replace("{prefix}", prefix)]

    def words(self, flag: str, natives: Sequence[str]) -> list[str]:
        """A flag with what it takes, once or once for each."""
        if self.provider.value("tools.repeat"):
            return [word for one in natives for word in put(flag, one)]
        return put(flag, self.provider.text("tools.separator").join(natives))


def put(flag: str, value: str) -> list[str]:
    """A flag and its value; several words of a flag are several arguments, `=` joins the last."""
    words = flag.split()
    if words and words[-1].endswith("="):
        return [*words[:-1], words[-1] + value]
    return [*words, value]


def _refused(agent: Agent) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What it may not use, and what it may after somebody agreed."""
    return _strings(agent.value("tools.deny")), _strings(agent.value("tools.ask"))


def _allowed(says: _Says, allow: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments, and the words that they cannot say."""
    flag = says.flag("allow_flag")
    if not flag:
        return [], list(allow) or ["[]"]
    natives, lost = _translated(says, allow)
    # A tool that is allowed and has no word is one the provider never asks for.
    lost = [word for word in lost if word not in NEUTRAL]
    if not natives:  # said without any tool, such a flag was seen to leave all of them
        return [], lost + (["[]"] if says.provider.value("tools.allow_only") else [])
    return says.words(flag, natives), lost


def _denied(
    says: _Says, refused: Sequence[str], rest: Sequence[str]
) -> tuple[list[str], list[str]]:
    flag = says.flag("deny_flag")
    if not flag:
        return [], list(refused)
    natives, lost = _translated(says, refused)
    natives = list(dict.fromkeys((*natives, *rest)))
    return says.words(flag, natives) if natives else [], lost


def _rest(says: _Says, allow: Sequence[str]) -> list[str]:
    """The provider's known tools that are not allowed, unless its flag for that sees to it."""
    if says.provider.value("tools.allow_only") and _allowed(says, allow)[0]:
        return []
    kept = {says.names[name] for word in allow for name in _mentioned(word) if name in says.names}
    return [name for name in dict.fromkeys(says.names.values()) if name not in kept]


def _mentioned(word: str) -> list[str]:
    name = word.partition("(")[0]
    return [one for one in NEUTRAL if "/" not in name and _fits(one, name)]


def _translated(says: _Says, words: Iterable[str]) -> tuple[list[str], list[str]]:
    natives: list[str] = []
    lost: list[str] = []
    joint = "" if says.provider.value("tools.repeat") else says.provider.text("tools.separator")
    for word in words:
        found = says.native(word)
        whole = found and not any(joint and joint in one for one in found)
        natives += found if whole else []
        lost += [] if whole else [word]
    return list(dict.fromkeys(natives)), lost


def _open(provider: Provider, agent: Agent, key: str, words: Sequence[str]) -> list[Problem]:
    if not words:
        return []
    said = ", ".join(f"`{word}`" for word in words)
    return [
        warning(
            UNENFORCEABLE,
            f"provider `{provider.name}` cannot be held to {said} in `tools.{key}` of agent "
            f"`{agent.name}`",
            agent.setting(f"tools.{key}").place,
            "it only guides there; `[security] require_enforcement = true` makes this an error",
        )
    ]


def _strings(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, (list, tuple)) else ()


def _is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _fits(name: str, glob: str) -> bool:
    return fnmatchcase(name, glob)
