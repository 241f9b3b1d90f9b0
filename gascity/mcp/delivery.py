"""Decide how the agents that share one directory get their MCP servers: by file or per launch.

Every agent wants its servers in its provider's file. Agents that want the same content share the
file. Where they differ, or where a secret would end up in a file that git tracks, each launch
gets its own servers if the provider supports that; otherwise agents that differ get none, and
servers with a secret are skipped.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gascity.mcp.gateway_entry import can_relay, gateway_entry, server_variables, skill_name
from gascity.mcp.native import NativeServer, native_server, skipped_server
from gascity.mcp.shapes import shape_of
from gascity.mcp.types import McpServer
from gascity.model.city import Agent
from gascity.model.problems import Problem
from gascity.model.provider import Provider
from gascity.model.values import JsonObject
from gascity.model.wanted import ServerEntry, Shape

FILE, LAUNCH, NONE = "file", "launch", "none"
_PRIVATE, _PUBLIC = 0o600, 0o644


class ServerRequest(NamedTuple):
    """An agent of the directory and its servers."""

    agent: str
    provider: Provider
    servers: tuple[McpServer, ...]
    skills_only: bool = False  # it gets skills that call its servers, and no entries


class TargetFile(NamedTuple):
    """The servers of one file, and the mode it needs."""

    path: str
    shape: Shape
    entries: Mapping[str, ServerEntry]
    mode: int


class SkippedServer(NamedTuple):
    """A server of an agent that its provider does not get."""

    name: str
    code: str
    reason: str


class Delivery(NamedTuple):
    """The way one agent gets its servers.

    `file`: by `targets`. `launch`: by `content`, the JSON for each launch. `none`: it conflicts
    with another agent, and nothing is written for either. `references` are the variables that
    its servers need, those behind the gateway included.
    """

    agent: str
    mode: str
    targets: tuple[TargetFile, ...] = ()
    content: str = ""
    projected: tuple[str, ...] = ()
    skipped: tuple[SkippedServer, ...] = ()
    references: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    gateways: tuple[str, ...] = ()  # servers that only the gateway reaches
    withheld: tuple[str, ...] = ()  # variables that only those need


class _FileContent(NamedTuple):
    """The servers that one agent wants in one file."""

    path: str
    shape: Shape
    natives: Mapping[str, NativeServer]

    @property
    def payload(self) -> tuple[Shape, JsonObject]:
        """Key that is equal for agents that can share the file."""
        entries = {name: native.entry for name, native in self.natives.items() if native.entry}
        return self.shape._replace(provider=""), dict(entries)


class _Draft(NamedTuple):
    """A request with the files it would need, the provider's own file first."""

    request: ServerRequest
    natives: Mapping[str, NativeServer]
    files: tuple[_FileContent, ...]

    @property
    def agent(self) -> str:
        return self.request.agent

    @property
    def always_launched(self) -> bool:
        """Whether a launch gets its servers even if the directory's file could hold them."""
        always = self.request.provider.facts.mcp.launch_always
        return always and any(native.entry is not None for native in self.natives.values())

    def leaks(self, tracked: frozenset[str]) -> bool:
        """Return whether a secret would be written to a file that git tracks."""
        return any(
            native.literal_secret
            for file in self.files
            if file.path in tracked
            for native in file.natives.values()
        )


def decide_deliveries(
    requests: Sequence[ServerRequest], providers: Mapping[str, Provider], tracked: frozenset[str]
) -> dict[str, Delivery]:
    """Return how each agent gets its servers. `tracked` are the directory's paths in git."""
    drafts = [_draft(request, providers) for request in requests]
    able = {draft.agent for draft in drafts if draft.files and can_launch(draft.request.provider)}
    launched = {
        draft.agent
        for draft in drafts
        if draft.agent in able and (draft.always_launched or draft.leaks(tracked))
    }
    drafts = [
        draft if draft.agent in able else _without_secrets(draft, tracked) for draft in drafts
    ]
    # Agents that can launch with their own servers give way first; what then still differs
    # is a conflict.
    launched |= _conflicts(drafts, launched).keys() & able
    conflicts = _conflicts(drafts, launched)
    deliveries = {}
    for draft in drafts:
        if draft.agent in launched:
            deliveries[draft.agent] = _by_launch(draft)
        elif draft.agent in conflicts:
            deliveries[draft.agent] = _in_conflict(draft, *conflicts[draft.agent])
        else:
            deliveries[draft.agent] = _by_file(draft)
    return deliveries


def can_launch(provider: Provider) -> bool:
    """Return whether a launch can get its own servers by a file or the environment.

    The command line does not count: every user of the machine can read it.
    """
    facts = provider.facts.mcp
    if facts.format != "json" or any("{json}" in arg for arg in facts.launch_args):
        return False
    return bool(facts.launch_args or facts.launch_env)


def _draft(request: ServerRequest, providers: Mapping[str, Provider]) -> _Draft:
    facts = request.provider.facts.mcp
    natives = _natives(request, request.provider)
    if not facts.target:
        return _Draft(request, natives, ())
    files = [_FileContent(facts.target, shape_of(request.provider), natives)]
    for path in facts.also_targets:
        owner = _owner(path, providers)
        if owner is not None:
            files.append(_FileContent(path, shape_of(owner), _natives(request, owner)))
    return _Draft(request, natives, tuple(files))


def _natives(request: ServerRequest, provider: Provider) -> dict[str, NativeServer]:
    return {
        server.name: _native(server, provider, request.skills_only)
        for server in sorted(request.servers, key=lambda server: server.name)
    }


def _native(server: McpServer, provider: Provider, skill_only: bool) -> NativeServer:
    """Return what a provider gets for a server: itself, the gateway or nothing but a skill."""
    if skill_only:
        reason = f"agents call it by the skill `{skill_name(server.name)}`"
        native = NativeServer(None, reason=reason, code="skill")
    elif not server.gateway:
        return native_server(server, provider)
    else:
        native = native_server(gateway_entry(server, provider), provider)
    if native.entry is None and not skill_only:
        return native
    if not can_relay(server):
        reason = f"the gateway does not support servers over {server.transport}"
        return skipped_server(server, "mcp-unsupported", reason, key="url")
    return native._replace(gateway=True, references=tuple(server_variables(server)))


def _owner(path: str, providers: Mapping[str, Provider]) -> Provider | None:
    """Return the first provider, by name, that reads a file as its own."""
    sorted_providers = (providers[name] for name in sorted(providers))
    return next((each for each in sorted_providers if each.facts.mcp.target == path), None)


def _without_secrets(draft: _Draft, tracked: frozenset[str]) -> _Draft:
    """Skip the servers that would write a secret to a file that git tracks."""
    servers = {server.name: server for server in draft.request.servers}
    files = []
    for file in draft.files:
        natives = dict(file.natives)
        for name, native in file.natives.items():
            if file.path in tracked and native.literal_secret:
                natives[name] = _skip_secret(servers[name], file.path, draft.agent)
        files.append(file._replace(natives=natives))
    natives_of_own = files[0].natives if files else draft.natives
    return draft._replace(natives=natives_of_own, files=tuple(files))


def _skip_secret(server: McpServer, path: str, agent: str) -> NativeServer:
    reason = f"it contains a secret, and git tracks {path} in the directory of `{agent}`"
    hint = "write ${NAME} instead of the secret, or remove the file from git"
    return skipped_server(server, "secret-in-tracked-file", reason, hint)


def _conflicts(drafts: Sequence[_Draft], launched: set[str]) -> dict[str, tuple[str, str]]:
    """Return the agents that want another content of a file: by agent, the other and the file."""
    remaining = [draft for draft in drafts if draft.agent not in launched]
    payloads: dict[str, list[tuple[str, object]]] = {}  # distinct ones of a file, by path
    for draft in remaining:
        for file in draft.files:
            known = payloads.setdefault(file.path, [])
            if all(payload != file.payload for _, payload in known):
                known.append((draft.agent, file.payload))
    conflicts: dict[str, tuple[str, str]] = {}
    for draft in remaining:
        for file in draft.files:
            for agent, payload in payloads[file.path]:
                if payload != file.payload:
                    conflicts.setdefault(draft.agent, (agent, file.path))
    return conflicts


def _by_file(draft: _Draft) -> Delivery:
    servers = {server.name: server for server in draft.request.servers}
    targets = []
    for file in draft.files:
        entries: dict[str, ServerEntry] = {}
        mode = _PUBLIC
        for name, native in file.natives.items():
            if native.entry is not None:
                server = servers[name]
                entries[name] = ServerEntry(
                    native.entry, server.file, server.origin, native.implied
                )
                mode = _PRIVATE if native.literal_secret else mode
        if entries:
            targets.append(TargetFile(file.path, file.shape, entries, mode))
    return _delivery(draft, FILE)._replace(targets=tuple(targets))


def _by_launch(draft: _Draft) -> Delivery:
    import json

    own, facts = draft.files[0], draft.request.provider.facts.mcp
    entries = {name: each.entry for name, each in own.natives.items() if each.entry is not None}
    document: object = entries
    for key in reversed(own.shape.key if facts.launch_key is None else facts.launch_key):
        document = {key: document}
    content = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return _delivery(draft._replace(files=(own,)), LAUNCH)._replace(content=content)


def _in_conflict(draft: _Draft, other: str, path: str) -> Delivery:
    first, second = sorted((draft.agent, other))
    problem = Problem(
        "mcp-conflict",
        f"agents `{first}` and `{second}` share a directory and have different servers for {path}",
        None,
        "give one of them its own `work_dir`, or both the same servers",
    )
    delivery = _delivery(draft, NONE)
    return delivery._replace(projected=(), problems=(problem, *delivery.problems))


def _delivery(draft: _Draft, mode: str) -> Delivery:
    every = [native for file in draft.files for native in file.natives.values()]
    every = every or list(draft.natives.values())
    return Delivery(
        draft.agent,
        mode,
        projected=tuple(name for name, each in draft.natives.items() if each.entry is not None),
        skipped=tuple(
            SkippedServer(name, native.code, native.reason)
            for name, native in draft.natives.items()
            if native.entry is None
        ),
        references=tuple(dict.fromkeys(name for each in every for name in each.references)),
        problems=tuple(dict.fromkeys(problem for each in every for problem in each.problems)),
        gateways=tuple(name for name, each in draft.natives.items() if each.gateway),
        withheld=_withheld(draft),
    )


def _withheld(draft: _Draft) -> tuple[str, ...]:
    """Return the variables that only servers behind the gateway need."""
    request = draft.request
    hidden = [server for server in request.servers if server.gateway or request.skills_only]
    natives = draft.natives.values()
    others = {name for each in natives if not each.gateway for name in each.references}
    names = (name for server in hidden for name in server_variables(server))
    return tuple(dict.fromkeys(name for name in names if name not in others))


def server_problems(provider: Provider, agent: Agent, delivery: Delivery) -> list[Problem]:
    """Return warnings about the servers of an agent that its headless runs cannot call."""
    from gascity.render.server_access import access_problems

    takes_any = bool(provider.facts.mcp.target)
    lost = tuple(server.name for server in delivery.skipped)
    servers = delivery.projected if takes_any else lost
    return access_problems(provider, agent, servers, delivery.gateways)
