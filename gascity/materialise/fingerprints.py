"""The fingerprint of what an agent's sessions start with."""

from collections.abc import Iterable, Mapping

from gascity.materialise.claims import Claims, Materials, gather_servers
from gascity.materialise.directories import Planned, Planner
from gascity.model.city import Agent
from gascity.model.plan import DOCUMENT, LINK, Held, Wanted, digest
from gascity.plan.fingerprint import fingerprint
from gascity.plan.overlay import Layered
from gascity.prompts import Prompts
from gascity.render import documents
from gascity.render.variables import Scene
from gascity.sites import Site
from gascity.source.skill_files import read_files

# What differs between two sessions of one agent stands in no fingerprint.
_ANY = Scene("{WorkDir}", "{Branch}", "{DefaultBranch}", "{Session}", "{Platform}", "{Date}")
_LAUNCH = (
    "provider model options option_defaults env args start_command prompt_mode prompt_flag"
    " pre_start session_setup session_setup_script session_live execution isolation"
    " tools.allow tools.deny tools.ask tools.exposure capabilities.allow capabilities.deny"
).split()


class Fingerprints:
    """Fingerprints of agents of one city."""

    def __init__(self, planner: Planner, *, steady: bool = False) -> None:
        """`steady`: no source changes, so that what does not depend on the directory is kept."""
        self.planner = planner
        self._kept: dict[str, dict[str, object]] | None = {} if steady else None
        prompts = planner.materials.prompts
        still = Prompts(prompts.city, prompts.disk, prompts.machine, prompts.everyone, _ANY)
        self.still = Materials.of(still, planner.environ)

    def of(self, planned: Planned, site: Site, known: Mapping[str, Held]) -> dict[str, str]:
        """The hashes of one agent. `known` are records that may save reading a file again."""
        agent = site.agent
        name = str(agent.name)
        before = planned.ledger.agents.get(name, {})
        same = bool(before) and not planned.outcome.steps and known == planned.ledger.paths
        overlay = "" if same else self._overlays(planned, agent, known)
        found = fingerprint({**self._elsewhere(planned, site), "overlay": overlay})
        # Files that are as they were applied need not be gone through again: there may be many.
        return {**found, "overlay": before["overlay"]} if same else found

    def _elsewhere(self, planned: Planned, site: Site) -> dict[str, object]:
        """The parts that are not files of an overlay."""
        name = str(site.agent.name)
        kept = self._kept.get(name) if self._kept is not None else None
        if kept is None:
            kept = {
                "prompt": self.still.prompts.of(site.agent).text,
                "skills": self._skills(planned.claims.wanted.values(), name),
                "mcp": self._servers(site),
                "launch": self._launch(site.agent),
            }
            if self._kept is not None:
                self._kept[name] = kept
        return kept

    def _overlays(self, planned: Planned, agent: Agent, known: Mapping[str, Held]) -> list[str]:
        files = planned.claims.overlays[str(agent.name)].chosen.files
        return [f"{path} {self._overlay(files[path], agent, known)}" for path in sorted(files)]

    def _overlay(self, one: Layered, agent: Agent, known: Mapping[str, Held]) -> str:
        held = known.get(one.path)
        file = one.file
        if held is not None and held.copied == file.stamp and held.source == file.source:
            return f"{held.mode} {held.sha256}"
        if not file.template and len(one.files) == 1:
            return f"{file.mode} {digest(self.planner.disk.read(file.absolute) or b'')}"
        steady = self.still.overlays.steady(one, agent)
        if steady is None or steady.kind == DOCUMENT:
            return documents.digest(steady.settings if steady else None)
        return f"{steady.mode} {digest(steady.data or b'')}"

    def _servers(self, site: Site) -> list[object]:
        claims = Claims()
        gather_servers(self.still, [site], claims, ask_git=False)
        delivery = claims.deliveries.get(str(site.agent.name))
        if delivery is None:
            return []
        return [
            [target.path, {name: entry.value for name, entry in target.entries.items()}]
            for target in delivery.targets
        ]

    def _skills(self, wanted: Iterable[Wanted], agent: str) -> list[object]:
        links = sorted(
            (one.path, one.target) for one in wanted if one.kind == LINK and agent in one.agents
        )
        return [[path, self._directory(target)] for path, target in links]

    def _directory(self, path: str) -> list[object]:
        disk = self.planner.disk
        return [
            [file.path, f"{file.mode:o}", digest(disk.read(file.absolute) or b"")]
            for file in read_files(disk, path, path)[0]
        ]

    def _launch(self, agent: Agent) -> dict[str, object]:
        provider = self.planner.city.providers.get(agent.provider)
        fields = {name: agent.value(name) for name in _LAUNCH}
        fields["command"] = provider.text("command") if provider else ""
        fields["provider_args"] = provider.value("args") if provider else ()
        fields["headless_args"] = provider.value("headless.args") if provider else ()
        return fields
