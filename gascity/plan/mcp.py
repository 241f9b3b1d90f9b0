"""Which file or launch gives which servers to the agents that share one directory."""

from collections.abc import Callable, Mapping, Sequence

from gascity.model.mcp import Server
from gascity.model.plan import Entry, Shape
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.records import NamedTuple
from gascity.render.mcp import Native, native, skipped

FILE, LAUNCH, NONE = "file", "launch", "none"
_PRIVATE, _PUBLIC = 0o600, 0o644


class Claim(NamedTuple):
    """An agent of the directory, the servers it has, and what a launch of it can look up."""

    agent: str
    provider: Provider
    servers: tuple[Server, ...]
    resolve: Callable[[str], str | None]


class Target(NamedTuple):
    """The servers of one file, and the mode it needs."""

    path: str
    shape: Shape
    entries: Mapping[str, Entry]
    mode: int


class Skipped(NamedTuple):
    """A server that an agent has and its provider does not get."""

    name: str
    code: str
    reason: str


class Delivery(NamedTuple):
    """How one agent gets its servers.

    By `file`: `targets`. By `launch`: `content`, the JSON that each launch is handed. `none`: it
    stands in another agent's way, and nothing may be written for either.
    """

    agent: str
    mode: str
    targets: tuple[Target, ...] = ()
    content: str = ""
    projected: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    references: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Draft(NamedTuple):
    """What one agent would have in one file."""

    path: str
    shape: Shape
    natives: Mapping[str, Native]

    @property
    def payload(self) -> object:
        shape = self.shape._replace(provider="")
        return shape, {name: one.entry for name, one in self.natives.items() if one.entry}


class _Wish(NamedTuple):
    """An agent with all it would have: the provider's own file first."""

    claim: Claim
    natives: Mapping[str, Native]
    drafts: tuple[_Draft, ...]

    def leaks(self, tracked: frozenset[str]) -> bool:
        return any(
            one.literal_secret
            for draft in self.drafts
            if draft.path in tracked
            for one in draft.natives.values()
        )


def decide(
    claims: Sequence[Claim], providers: Mapping[str, Provider], tracked: frozenset[str]
) -> dict[str, Delivery]:
    """By agent, how it gets its servers. `tracked` are the paths that git has in the directory.

    Agents that would write the same share a file. Where they differ, and where a secret would
    come into a tracked file, each launch is handed its servers if the provider can take them so.
    """
    wishes = [_wish(claim, providers) for claim in claims]
    able = {one.claim.agent for one in wishes if one.drafts and can_launch(one.claim.provider)}
    launched = {one.claim.agent for one in wishes if one.claim.agent in able and one.leaks(tracked)}
    wishes = [one if one.claim.agent in able else _without_secrets(one, tracked) for one in wishes]
    differ = _differing([one for one in wishes if one.claim.agent not in launched])
    launched |= differ.keys() & able
    differ = _differing([one for one in wishes if one.claim.agent not in launched])
    found = {}
    for one in wishes:
        agent = one.claim.agent
        if agent in launched:
            found[agent] = _by_launch(one)
        else:
            found[agent] = _in_the_way(one, *differ[agent]) if agent in differ else _by_file(one)
    return found


def can_launch(provider: Provider) -> bool:
    """Can a launch be handed servers of its own? Never on the command line, where all can read."""
    args = provider.strings("mcp.launch_args")
    fits = provider.text("mcp.format") == "json" and not any("{json}" in one for one in args)
    return fits and bool(args or provider.value("mcp.launch_env"))


def _wish(claim: Claim, providers: Mapping[str, Provider]) -> _Wish:
    servers = sorted(claim.servers, key=lambda server: server.name)
    natives = {one.name: native(one, claim.provider, claim.resolve) for one in servers}
    main = claim.provider.text("mcp.target")
    if not main:
        return _Wish(claim, natives, ())
    drafts = [_Draft(main, shape_of(claim.provider), natives)]
    for path in claim.provider.strings("mcp.also_targets"):
        for owner in _owners(path, providers):
            theirs = {one.name: native(one, owner, claim.resolve) for one in servers}
            drafts.append(_Draft(path, shape_of(owner), theirs))
    return _Wish(claim, natives, tuple(drafts))


def _owners(path: str, providers: Mapping[str, Provider]) -> list[Provider]:
    """The provider that reads a file as its own, if there is one."""
    found = [providers[name] for name in sorted(providers)]
    return [one for one in found if one.text("mcp.target") == path][:1]


def shape_of(provider: Provider) -> Shape:
    """How a provider's file holds its servers."""
    listed = provider.value("mcp.entries") == "list"
    return Shape(
        provider.name,
        provider.text("mcp.format"),
        provider.strings("mcp.key"),
        provider.text("mcp.name_key") if listed else "",
    )


def _without_secrets(wish: _Wish, tracked: frozenset[str]) -> _Wish:
    """The same without the servers that would put a secret into a file that git has."""
    servers = {one.name: one for one in wish.claim.servers}
    drafts = tuple(
        draft._replace(
            natives={
                name: _kept_back(servers[name], draft.path, wish.claim.agent)
                if one.literal_secret
                else one
                for name, one in draft.natives.items()
            }
        )
        if draft.path in tracked
        else draft
        for draft in wish.drafts
    )
    return wish._replace(natives=drafts[0].natives if drafts else wish.natives, drafts=drafts)


def _kept_back(server: Server, path: str, agent: str) -> Native:
    reason = f"it holds a secret, and git tracks {path} where `{agent}` works"
    hint = "write ${NAME} in place of the secret, or take the file out of git"
    return skipped(server, "secret-in-tracked-file", reason, hint)


def _differing(wishes: Sequence[_Wish]) -> dict[str, tuple[str, str]]:
    """Agents that want something else in a file than another: by name, that agent and the file."""
    said: dict[str, list[tuple[str, object]]] = {}
    for one in wishes:
        for draft in one.drafts:
            others = said.setdefault(draft.path, [])
            if all(payload != draft.payload for _, payload in others):
                others.append((one.claim.agent, draft.payload))
    found: dict[str, tuple[str, str]] = {}
    for one in wishes:
        for draft in one.drafts:
            for agent, payload in said[draft.path]:
                if payload != draft.payload:
                    found.setdefault(one.claim.agent, (agent, draft.path))
    return found


def _by_file(wish: _Wish) -> Delivery:
    targets = []
    for draft in wish.drafts:
        taken = {name: one for name, one in draft.natives.items() if one.entry is not None}
        private = any(one.literal_secret or one.literal for one in taken.values())
        if taken:
            entries = {name: _entry(wish, name, one) for name, one in taken.items()}
            mode = _PRIVATE if private else _PUBLIC
            targets.append(Target(draft.path, draft.shape, entries, mode))
    return _delivery(wish, FILE)._replace(targets=tuple(targets))


def _entry(wish: _Wish, name: str, one: Native) -> Entry:
    server = next(server for server in wish.claim.servers if server.name == name)
    return Entry(one.entry or {}, server.file, server.origin)


def _by_launch(wish: _Wish) -> Delivery:
    claim, draft = wish.claim, wish.drafts[0]
    expanded = claim.provider.value("mcp.launch_expands") is not False
    natives = {
        one.name: native(one, claim.provider, claim.resolve, expanded=expanded)
        for one in sorted(claim.servers, key=lambda server: server.name)
    }
    document: object = {name: one.entry for name, one in natives.items() if one.entry is not None}
    key = claim.provider.value("mcp.launch_key")
    for word in reversed(key if isinstance(key, tuple) else draft.shape.key):
        document = {word: document}
    import json

    content = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    handed = _Wish(claim, natives, (draft._replace(natives=natives),))
    return _delivery(handed, LAUNCH)._replace(content=content)


def _in_the_way(wish: _Wish, other: str, path: str) -> Delivery:
    first, second = sorted((wish.claim.agent, other))
    clash = Problem(
        "mcp-conflict",
        f"agents `{first}` and `{second}` work in one directory and have different servers for "
        f"{path}",
        None,
        "give one of them a `work_dir` of its own, or both the same servers",
    )
    done = _delivery(wish, NONE)
    return done._replace(projected=(), problems=(clash, *done.problems))


def _delivery(wish: _Wish, mode: str) -> Delivery:
    natives = [one for draft in wish.drafts for one in draft.natives.values()]
    natives = natives or list(wish.natives.values())
    return Delivery(
        wish.claim.agent,
        mode,
        projected=tuple(name for name, one in wish.natives.items() if one.entry is not None),
        skipped=tuple(
            Skipped(name, one.code, one.reason)
            for name, one in wish.natives.items()
            if one.entry is None
        ),
        references=tuple(dict.fromkeys(name for one in natives for name in one.references)),
        problems=tuple(dict.fromkeys(problem for one in natives for problem in one.problems)),
    )


class Launch(NamedTuple):
    """What a launch gets beside the provider's own arguments and environment."""

    args: tuple[str, ...]
    env: Mapping[str, str]


def launch_arguments(provider: Provider, delivery: Delivery, workdir: str, file: str) -> Launch:
    """What passes the provider's trust gates and hands it its servers.

    `file` is where the launch's own servers were written, if it has any.
    """
    from gascity.render.launch import filled

    args, env = provider.strings("trust.args"), provider.pairs("trust.env")
    if delivery.mode == LAUNCH:
        args += provider.strings("mcp.launch_args")
        env |= provider.pairs("mcp.launch_env")
    elif delivery.targets:
        env |= provider.pairs("mcp.env")

    known = {"workdir": workdir, "file": file, "json": delivery.content}
    args = tuple(filled(one, known) for one in args)
    return Launch(args, {key: filled(value, known) for key, value in env.items()})
