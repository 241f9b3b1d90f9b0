"""Fingerprints: one hash per part of what a session starts with, to detect and classify drift."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gascity.location import Site
from gascity.model.city import Agent
from gascity.model.document_text import value_digest
from gascity.model.plan import PathRecord
from gascity.model.session_context import SessionContext
from gascity.model.values import JsonObject
from gascity.model.wanted import DOCUMENT, LINK, WantedPath, digest
from gascity.prompts import Prompts
from gascity.source.catalogues import read_files
from gascity.workdir.overlays import LayeredFile
from gascity.workdir.planner import DirectoryPlan, Planner
from gascity.workdir.wanted import CityContent, Requirements, collect_servers

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey

HOT, NEXT_START, RESTART = "hot", "next start", "restart"

# When a change reaches a running session: providers reload skills by themselves and instructions
# at the next start; servers and arguments too, but a session must not run with the old ones.
PARTS = {
    "prompt": NEXT_START,
    "overlay": NEXT_START,
    "skills": HOT,
    "mcp": RESTART,
    "launch": RESTART,
}

# Placeholders for values that differ between sessions: they must not change the fingerprint.
_ANY_SESSION = SessionContext(
    "{WorkDir}", "{Branch}", "{DefaultBranch}", "{Session}", "{Platform}", "{Date}"
)
_LAUNCH: "tuple[AgentKey, ...]" = (
    "provider",
    "model",
    "options",
    "option_defaults",
    "env",
    "args",
    "start_command",
    "prompt_mode",
    "prompt_flag",
    "pre_start",
    "session_setup",
    "session_setup_script",
    "session_live",
    "execution",
    "isolation",
    "tools.allow",
    "tools.deny",
    "tools.ask",
    "tools.exposure",
    "capabilities.allow",
    "capabilities.deny",
)
_LAUNCH_IF_SET: "tuple[AgentKey, ...]" = ("temperature", "top_p", "steps", "variant", "color")


class Drift(NamedTuple):
    """A part that changed, and what that means for a running session."""

    part: str
    effect: str


def whole(fingerprint: Mapping[str, str]) -> str:
    """Return one hash over all parts."""
    return value_digest(dict(fingerprint))


def drift(before: Mapping[str, str], now: Mapping[str, str]) -> list[Drift]:
    """Return the parts that differ; none if there was no fingerprint before."""
    if not before:
        return []
    return [Drift(part, PARTS[part]) for part in PARTS if before.get(part) != now[part]]


class Fingerprints:
    """Computes fingerprints of a city's agents."""

    def __init__(self, planner: Planner, *, fixed_sources: bool = False) -> None:
        """`fixed_sources`: no source changes, so parts outside the directory are cached."""
        self.planner = planner
        self._cache: dict[str, JsonObject] | None = {} if fixed_sources else None
        prompts = planner.content.prompts
        neutral = Prompts(
            prompts.city, prompts.disk, prompts.machine, prompts.whole_city, _ANY_SESSION
        )
        self.neutral = CityContent.of(neutral, planner.environ)

    def of(
        self, plan: DirectoryPlan, site: Site, records: Mapping[str, PathRecord]
    ) -> dict[str, str]:
        """Return the hash of each part of one agent. `records` may save reading files again."""
        agent = site.agent
        before = plan.ledger.agents.get(str(agent.name), {})
        # If nothing changes, the overlay's files, of which there may be many, are not read again.
        same = bool(before) and not plan.decision.steps and records == plan.ledger.paths
        overlay = "" if same else self._overlay_hashes(plan, agent, records)
        parts = {**self._other_parts(plan, site), "overlay": overlay}
        hashes = {part: value_digest(parts[part]) for part in PARTS}
        return {**hashes, "overlay": before["overlay"]} if same else hashes

    def _other_parts(self, plan: DirectoryPlan, site: Site) -> JsonObject:
        """Return all parts but the overlay."""
        name = str(site.agent.name)
        parts = self._cache.get(name) if self._cache is not None else None
        if parts is None:
            parts = {
                "prompt": self.neutral.prompts.of(site.agent).text,
                "skills": self._skills(plan.requirements.wanted.values(), name),
                "mcp": self._servers(site),
                "launch": self._launch(site.agent),
            }
            if self._cache is not None:
                self._cache[name] = parts
        return parts

    def _overlay_hashes(
        self, plan: DirectoryPlan, agent: Agent, records: Mapping[str, PathRecord]
    ) -> list[str]:
        files = plan.requirements.overlays[str(agent.name)].selection.files
        hashes = [
            f"{path} {self._overlay_hash(files[path], agent, records)}" for path in sorted(files)
        ]
        if agent.settings.native_subagents:
            from gascity.workdir.agent_files import subagents

            found = subagents(self.neutral.prompts, agent)
            hashes += (f"{each.path} {digest(each.text.encode())}" for each in found)
        return hashes

    def _overlay_hash(
        self, layered: LayeredFile, agent: Agent, records: Mapping[str, PathRecord]
    ) -> str:
        record = records.get(layered.path)
        file = layered.file
        if record is not None and record.copied == file.stamp and record.source == file.source:
            return f"{record.mode} {record.sha256}"
        if not file.template and len(layered.files) == 1:
            return f"{file.mode} {digest(self.planner.disk.read(file.absolute) or b'')}"
        wanted = self.neutral.overlays.wanted_path(layered, agent)
        if wanted is None or wanted.kind == DOCUMENT:
            return value_digest(wanted.settings if wanted else None)
        return f"{wanted.mode} {digest(wanted.data or b'')}"

    def _servers(self, site: Site) -> list[object]:
        requirements = Requirements()
        collect_servers(self.neutral, [site], requirements, ask_git=False)
        delivery = requirements.deliveries.get(str(site.agent.name))
        if delivery is None:
            return []
        return [
            [target.path, {name: entry.value for name, entry in target.entries.items()}]
            for target in delivery.targets
        ]

    def _skills(self, wanted: Iterable[WantedPath], agent: str) -> list[object]:
        links = sorted(
            (path.path, path.target)
            for path in wanted
            if path.kind == LINK and agent in path.agents
        )
        return [[path, self._directory(target)] for path, target in links]

    def _directory(self, path: str) -> list[object]:
        disk = self.planner.disk
        return [
            [file.path, f"{file.mode:o}", digest(disk.read(file.absolute) or b"")]
            for file in read_files(disk, path, path)[0]
        ]

    def _launch(self, agent: Agent) -> JsonObject:
        provider = self.planner.city.provider_of(agent)
        fields: JsonObject = {name: agent.setting(name).value for name in _LAUNCH}
        # Left out if unset, so that older fingerprints stay valid.
        newer = {name: agent.setting(name).value for name in _LAUNCH_IF_SET}
        fields |= {name: value for name, value in newer.items() if value is not None}
        fields["command"] = provider.facts.command or "" if provider else ""
        fields["provider_args"] = provider.facts.args if provider else ()
        fields["headless_args"] = provider.facts.headless.args if provider else ()
        return fields
