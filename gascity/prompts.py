"""Render the prompts of a city's agents: read the files, expand templates, report problems."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

from gascity.compose.asset_dirs import AssetDir, agent_asset_dirs, lenient_packs
from gascity.location import default_branch, locate
from gascity.model.city import Agent, City
from gascity.model.city_tools import CITY_SERVER
from gascity.model.layers import CITY_DEFAULTS, DEFINITION, PACK_DEFAULTS, Setting
from gascity.model.names import AgentName, allowed
from gascity.model.pack import unread
from gascity.model.problems import Place, Problem, warning
from gascity.model.session_context import Machine as Machine
from gascity.model.session_context import SessionContext
from gascity.model.values import as_list
from gascity.pipeline import list_skills, open_city
from gascity.render.prompt_text import RenderedPrompt, moved_lines, plain_prompt
from gascity.source.agents import is_profile
from gascity.source.catalogues import read_fragments, read_text
from gascity.source.disk import Disk

if TYPE_CHECKING:
    from gascity.gotemplate import Template
    from gascity.model.hud import HudSection
    from gascity.model.work import Session
    from gascity.render.templates import AppendedFragment, BuiltinPart, HudTexts, TemplateFile

_FRAGMENTS = "template-fragments"
_INHERITED = (PACK_DEFAULTS, CITY_DEFAULTS)


def is_template(file: str | None) -> bool:
    """Return whether a file is a template: `.template.` in its name, or v1's `.md.tmpl`."""
    if not file:
        return False
    return ".template." in file.rpartition("/")[2] or file.endswith(".md.tmpl")


def default_prompt(agent: Agent) -> str:
    """Return the prompt of an agent that has no prompt file, only a description."""
    name = agent.settings.display_name or agent.name.bare
    return f"You are {name}. {agent.settings.description}".strip() + "\n"


class Prompts:
    """Renders the prompts of one city; fragment files are read once for all agents."""

    def __init__(
        self,
        city: City,
        disk: Disk,
        machine: Machine,
        whole_city: Callable[[], City] | None = None,
        session: SessionContext | None = None,
        live: Mapping[str, str] | None = None,
    ) -> None:
        """`whole_city` opens the whole city where `city` was read for one agent only.

        `session` holds the values of one session; by default those of the agent's first session.
        `live` is the environment in which HUD sections collect live values; without it, prompts
        contain the sections as they are written.
        """
        self.city = city
        self.whole_city = whole_city or (lambda: city)
        self.disk = disk
        self.machine = machine
        self.session = session
        self.live = live
        self.has_hud = True
        self.lenient = lenient_packs(city)
        rig_imports = (each for imports in city.rig_imports.values() for each in imports)
        self.incomplete = unread([*city.pack.imports, *rig_imports])
        self._fragments: dict[str, list[TemplateFile]] = {}
        self._asset_dirs: dict[AgentName, list[AssetDir]] = {}
        self.parsed: dict[str, Template | None] = {}
        self.hud_files: dict[str, tuple[HudSection, ...]] = {}  # by directory

    def without_live_values(self) -> "Prompts":
        """Return a copy that renders HUD sections as they are written."""
        twin = copy(self)
        twin.live = None
        return twin

    def for_files(self) -> "Prompts":
        """Return a copy for prompts that are written to files: without HUD.

        Live values would make every plan differ from the file that the last session got.
        """
        twin = copy(self)
        twin.has_hud = False
        return twin

    def for_session(self, session: SessionContext) -> "Prompts":
        """Return a copy with one session's values that shares the files read so far."""
        twin = copy(self)
        twin.session = session
        return twin

    def of(self, agent: Agent) -> RenderedPrompt:
        """Render the prompt of an agent."""
        setting = agent.setting("prompt")
        file = agent.settings.prompt
        if not file:
            return plain_prompt(agent.home.directory, default_prompt(agent))
        before = len(self.disk.problems)
        text = read_text(self.disk, file)
        problems = tuple(self.disk.take_problems(before))
        if text is None:
            return RenderedPrompt("", (), problems)
        if is_profile(file):
            return self._of_profile(agent, file, text)
        if not is_template(file):
            return plain_prompt(file, text)._replace(problems=tuple(_ineffective_append(agent)))
        pack = pack_of(setting, agent)
        return self.expand(agent, file, text, pack, self._appended(agent), is_prompt=True)

    def _of_profile(self, agent: Agent, file: str, text: str) -> RenderedPrompt:
        """Render the prompt in a profile; its pieces and problems have the lines of the file."""
        from gascity.model.profile import profile_prompt, read_profile

        prompt = profile_prompt(read_profile(text))
        if is_template(file):
            pack = pack_of(agent.setting("prompt"), agent)
            appended = self._appended(agent)
            rendered = self.expand(agent, file, prompt.text, pack, appended, is_prompt=True)
        else:
            append = tuple(_ineffective_append(agent))
            rendered = plain_prompt(file, prompt.text)._replace(problems=append)
        return moved_lines(rendered, file, prompt.lines)

    def expand(
        self,
        agent: Agent,
        file: str,
        text: str,
        pack: str,
        appended: "Sequence[AppendedFragment]" = (),
        *,
        is_prompt: bool = False,
    ) -> RenderedPrompt:
        """Expand a template that belongs to `pack` with an agent's variables and fragments.

        HUD sections are empty unless it is a prompt: an overlay file is not written every turn.
        """
        from gascity.render.templates import HudTexts, PromptSource, TemplateFile, render_prompt
        from gascity.render.variables import BUILTIN_FRAGMENTS, functions, variables

        session, problems = self.session_context(agent)
        rendered = render_prompt(
            PromptSource(
                prompt=TemplateFile(file, text, pack in self.lenient),
                fragments=self.fragments(agent, pack),
                appended=appended,
                variables=variables(self.city, agent, session),
                functions=functions(),
                builtin=lambda name: self._builtin_fragment(name, agent, session),
                builtin_names=BUILTIN_FRAGMENTS,
                parsed=self.parsed,
                hud=lambda mentions: (
                    self._hud(agent, session, mentions) if is_prompt else HudTexts()
                ),
            )
        )
        return rendered._replace(problems=(*problems, *rendered.problems))

    def _builtin_fragment(
        self, name: str, agent: Agent, session: SessionContext
    ) -> "Sequence[BuiltinPart]":
        """Return the pieces of a built-in fragment; read only the files it needs."""
        from gascity.render.templates import BuiltinPart
        from gascity.render.variables import available_agents, environment, skill_list

        if name == "memory":
            return self._memory(agent)
        if name == "available-agents":
            text = available_agents(self.whole_city(), agent, self._has_city_tools(agent))
        elif name == "skills":
            skills = [resolved.skill for resolved in list_skills(self.city, self.disk, agent)]
            text = skill_list([(skill.name, skill.description) for skill in skills])
        else:
            text = environment(agent, session)
        return [BuiltinPart(text)]

    def _memory(self, agent: Agent) -> "list[BuiltinPart]":
        """Return the newest notes of an agent; what is wrong with one is noted on the disk."""
        from gascity.memory.catalogue import agent_notes
        from gascity.model.notes import memory_parts
        from gascity.render.prompt_text import MEMORY
        from gascity.render.templates import BuiltinPart

        found = agent_notes(self.city, self.disk, agent)
        for problem in found.problems:
            self.disk.note(problem)
        parts = memory_parts(found.notes, agent.settings.limits.memory_chars)
        return [BuiltinPart(part.text, part.file, part.line, MEMORY) for part in parts]

    def _hud(
        self, agent: Agent, session: SessionContext, mentions: Callable[[str], bool]
    ) -> "HudTexts":
        """Return the HUD sections that a prompt mentions."""
        from gascity.render.templates import HudTexts

        if not self.has_hud:
            return HudTexts()
        from gascity.hud.in_prompt import prompt_sections

        return prompt_sections(self, agent, session, mentions)

    def refreshed_sections(self, agent: Agent) -> "tuple[HudSection, ...]":
        """Return the HUD sections of an agent's prompt that are refreshed while a session runs."""
        if not self.names_hud(agent):
            return ()
        from gascity.hud.in_prompt import refreshed_sections

        return refreshed_sections(self, agent)

    def names_hud(self, agent: Agent) -> bool:
        """Return whether an agent's prompt mentions a fragment of the HUD."""
        file = agent.settings.prompt
        if not file or not is_template(file):
            return False
        from gascity.render.templates import mentions_hud

        before = len(self.disk.problems)
        text = read_text(self.disk, file) or ""
        self.disk.take_problems(before)  # rendering the prompt reports them
        fragments = self.fragments(agent, pack_of(agent.setting("prompt"), agent))
        texts = [text, *(fragment.text for fragment in fragments)]
        return mentions_hud(texts, agent.settings.append_fragments)

    def _has_city_tools(self, agent: Agent) -> bool:
        """Return whether the agent gets the MCP server `city`."""
        from gascity.mcp.servers import ServerResolver

        provider = self.city.provider_of(agent)
        if provider is None or not provider.facts.mcp.target:
            return False
        reaches = CITY_SERVER in ServerResolver(self).names(agent)
        return reaches and allowed((CITY_SERVER,), agent.settings.mcp_filter)

    def asset_dirs(self, agent: Agent) -> list[AssetDir]:
        """Return the directories whose catalogues an agent sees, lowest precedence first."""
        if agent.name not in self._asset_dirs:
            self._asset_dirs[agent.name] = agent_asset_dirs(self.city, agent)
        return self._asset_dirs[agent.name]

    def fragments(self, agent: Agent, pack: str) -> "list[TemplateFile]":
        """Return the fragment files an agent sees, lowest precedence first.

        If another pack than the agent's own sets the prompt (by a patch), that pack's fragments
        take precedence, so that the prompt finds what it was written with.
        """
        asset_dirs = self.asset_dirs(agent)
        if pack != agent.home.pack:
            asset_dirs = [asset_dir for asset_dir in asset_dirs if asset_dir.directory != pack]
            asset_dirs.append(AssetDir(pack, pack, frozenset((_FRAGMENTS,)), pack))
        return [
            file
            for asset_dir in asset_dirs
            if _FRAGMENTS in asset_dir.catalogues
            for file in self._fragments_of(asset_dir)
        ]

    def _fragments_of(self, asset_dir: AssetDir) -> "list[TemplateFile]":
        from gascity.render.templates import TemplateFile

        if asset_dir.directory not in self._fragments:
            self._fragments[asset_dir.directory] = [
                TemplateFile(file, text, asset_dir.pack in self.lenient)
                for file, text in read_fragments(self.disk, asset_dir.path(_FRAGMENTS))
            ]
        return self._fragments[asset_dir.directory]

    def _appended(self, agent: Agent) -> "list[AppendedFragment]":
        from gascity.render.templates import AppendedFragment

        chain = agent.setting("append_fragments").chain()
        found = []
        for name in agent.settings.append_fragments:
            place, lenient = _where_appended(name, chain, self.lenient)
            # An import that could not be read may contain it, and has its own problem already.
            found.append(AppendedFragment(name, place, lenient or self.incomplete))
        return found

    def session_context(self, agent: Agent) -> tuple[SessionContext, list[Problem]]:
        """Return the values of the session, by default of the agent's first one."""
        if self.session is not None:
            return self.session, []
        rig = self.city.rig_of(agent)
        session = SessionContext(
            default_branch=default_branch(self.disk, rig.path) if rig and rig.path else "",
            platform=self.machine.platform,
            date=self.machine.date,
        )
        location = locate(self.city, agent, self.disk, session)
        # A prompt can be shown without the rig's directory; only applying to it needs it.
        problems = [each for each in location.problems if each.is_error]
        problems = [each for each in problems if each.code != "rig-missing"]
        return session._replace(work_dir=location.workdir), problems


def session_prompts(
    city: City,
    agent: Agent,
    session: "Session | None",
    environ: Mapping[str, str],
    machine: Machine,
) -> Prompts:
    """Return the renderer of an agent's prompt with live values.

    For this session, else for the agent's first one. `city` may have been read for the agent only.
    """
    disk = Disk(city.root)
    values = None
    if session is not None:
        rig = city.rig_of(agent)
        values = SessionContext(
            work_dir=session.workdir,
            branch=session.branch,
            default_branch=default_branch(disk, rig.path) if rig and rig.path else "",
            session=session.alias,
            platform=machine.platform,
            date=machine.date,
            id=session.id,
        )
    return Prompts(city, disk, machine, lambda: open_city(city.root, environ), values, live=environ)


def pack_of(setting: Setting, agent: Agent) -> str:
    """Return the root of the pack whose file sets this."""
    if setting.layer is None or setting.kind == DEFINITION:
        return agent.home.pack
    return setting.layer.file.rpartition("/")[0] or "."


def _where_appended(
    name: str, chain: Sequence[Setting], lenient: frozenset[str]
) -> tuple[Place | None, bool]:
    """Return the place that appends a fragment, and whether the user cannot edit that file."""
    for setting in chain:
        layer = setting.layer
        if layer is not None and name in as_list(layer.values.get(setting.key)):
            root = layer.file.rpartition("/")[0] or "."
            return setting.place, any(
                root == pack or root.startswith(pack + "/") for pack in lenient
            )
    return None, False


def _ineffective_append(agent: Agent) -> Iterator[Problem]:
    """Warn if the agent's own files append fragments to a prompt that is not a template."""
    setting = agent.setting("append_fragments")
    if setting.layer is not None and setting.kind not in _INHERITED and setting.value:
        file = agent.settings.prompt or ""
        yield warning(
            "append-on-plain",
            "`append_fragments` has no effect: the prompt is not a template",
            setting.place,
            f"rename {file} to {file.removesuffix('.md')}.template.md",
        )
