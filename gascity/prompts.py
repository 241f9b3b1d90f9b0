"""From an agent to what its model is told: reads the texts, renders them, finds what is amiss."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

from gascity.compose.catalogues import Shelf, agent_shelves, lenient_packs
from gascity.model.city import Agent, City
from gascity.model.layers import CITY_DEFAULTS, DEFINITION, PACK_DEFAULTS, Setting
from gascity.model.machine import Machine as Machine
from gascity.model.names import AgentName, did_you_mean
from gascity.model.pack import unread
from gascity.model.problems import Place, Problem, warning
from gascity.pipeline import list_skills
from gascity.render.pieces import Appended, Rendered, TemplateFile, plain_prompt
from gascity.render.reserved import RESERVED, available_agents, environment, skill_list
from gascity.render.variables import Scene, functions, variables
from gascity.sites import locate
from gascity.source.disk import Disk
from gascity.source.fragments import default_branch, read_fragments, read_text

if TYPE_CHECKING:
    from gascity.gotemplate import Template

_INHERITED = (PACK_DEFAULTS, CITY_DEFAULTS)


def is_template(file: str) -> bool:
    """Only files with the infix are templates (and the old suffix of published packs)."""
    return ".template." in file.rpartition("/")[2] or file.endswith(".md.tmpl")


def described(agent: Agent) -> str:
    """The prompt of an agent that has only a description."""
    name = agent.text("display_name") or agent.name.bare
    return f"You are {name}. {agent.text('description')}".strip() + "\n"


class Prompts:
    """Renders prompts of one city; fragment files are read once for all agents."""

    def __init__(
        self,
        city: City,
        disk: Disk,
        machine: Machine,
        everyone: Callable[[], City] | None = None,
        stand_in: Scene | None = None,
    ) -> None:
        """`everyone` opens the whole city where `city` holds only one agent of it.

        `stand_in` takes the place of what differs from session to session.
        """
        self.city = city
        self.everyone = everyone or (lambda: city)
        self.disk = disk
        self.machine = machine
        self.stand_in = stand_in
        self.lenient = lenient_packs(city)
        rigs = (one for imports in city.rig_imports.values() for one in imports)
        self.incomplete = unread([*city.pack.imports, *rigs])
        self._fragments: dict[str, list[TemplateFile]] = {}
        self._shelves: dict[AgentName, list[Shelf]] = {}
        self.parsed: dict[str, Template | None] = {}

    def seen_from(self, scene: Scene) -> "Prompts":
        """The same with one session's own values; what was read is not read again."""
        twin = copy(self)
        twin.stand_in = scene
        return twin

    def of(self, agent: Agent) -> Rendered:
        """What the agent's first session would be told."""
        setting = agent.setting("prompt")
        file = setting.value if isinstance(setting.value, str) else ""
        if not file:
            return plain_prompt(agent.home.directory, described(agent))
        before = len(self.disk.problems)
        text = read_text(self.disk, file)
        noted = tuple(self.disk.problems[before:])
        del self.disk.problems[before:]
        if text is None:
            return Rendered("", (), noted)
        if not is_template(file):
            done = plain_prompt(file, text)
            return done._replace(problems=tuple(_inert(agent)))
        return self._expanded(agent, setting, file, text)

    def _expanded(self, agent: Agent, setting: Setting, file: str, text: str) -> Rendered:
        return self.expand(agent, file, text, _writer(setting, agent), self._appended(agent))

    def expand(
        self, agent: Agent, file: str, text: str, home: str, appended: Sequence[Appended] = ()
    ) -> Rendered:
        """A template of the pack `home` with an agent's variables and fragments filled in."""
        from gascity.render.prompts import Recipe, render_prompt

        scene, faults = self.scene(agent)
        recipe = Recipe(
            prompt=TemplateFile(file, text, home in self.lenient),
            fragments=self.fragments(agent, home),
            appended=appended,
            variables=variables(self.city, agent, scene),
            functions=functions(),
            reserved=lambda name: self._reserved(name, agent, scene),
            reserved_names=RESERVED,
            parsed=self.parsed,
        )
        done = render_prompt(recipe)
        return done._replace(problems=(*faults, *done.problems))

    def _reserved(self, name: str, agent: Agent, scene: Scene) -> str:
        """The text of a reserved fragment; only what it is made of is read."""
        if name == "available-agents":
            return available_agents(self.everyone(), agent)
        if name == "skills":
            found = list_skills(self.city, self.disk, agent)
            return skill_list([(one.skill.name, one.skill.description) for one in found])
        return environment(agent, scene)

    def shelves(self, agent: Agent) -> list[Shelf]:
        """Every shelf an agent sees, for whoever looks for something on them in turn."""
        if agent.name not in self._shelves:
            self._shelves[agent.name] = agent_shelves(self.city, agent)
        return self._shelves[agent.name]

    def fragments(self, agent: Agent, home: str) -> list[TemplateFile]:
        """Fragment files an agent sees, lowest first; a patch brings those of its own pack."""
        shelves = self.shelves(agent)
        if home != agent.home.pack:
            shelves = [shelf for shelf in shelves if shelf.directory != home]
            shelves.append(Shelf(home, home, frozenset(("template-fragments",)), home))
        return [
            source
            for shelf in shelves
            if "template-fragments" in shelf.catalogues
            for source in self._on(shelf)
        ]

    def _on(self, shelf: Shelf) -> list[TemplateFile]:
        if shelf.directory not in self._fragments:
            self._fragments[shelf.directory] = [
                TemplateFile(file, text, shelf.pack in self.lenient)
                for file, text in read_fragments(self.disk, shelf.path("template-fragments"))
            ]
        return self._fragments[shelf.directory]

    def _appended(self, agent: Agent) -> list[Appended]:
        names = agent.value("append_fragments")
        chain = agent.setting("append_fragments").chain()
        found = [
            Appended(name, *_asked_for(name, chain, self.lenient))
            for name in (names if isinstance(names, tuple) else ())
        ]
        # An import that could not be read may have them, and has its own problem already.
        return [one._replace(lenient=True) for one in found] if self.incomplete else found

    def scene(self, agent: Agent) -> tuple[Scene, list[Problem]]:
        """The values the agent's first session would have."""
        if self.stand_in is not None:
            return self.stand_in, []
        rig = self.city.rig_of(agent)
        scene = Scene(
            default_branch=default_branch(self.disk, rig.path) if rig and rig.path else "",
            platform=self.machine.platform,
            date=self.machine.date,
        )
        place = locate(self.city, agent, self.disk, scene)
        # A prompt can be told where no rig is; whoever writes there cannot.
        faults = [one for one in place.problems if one.is_error and one.code != "rig-missing"]
        return scene._replace(work_dir=place.workdir), faults


def _writer(setting: Setting, agent: Agent) -> str:
    """The root, as shown, of the pack whose file named the prompt."""
    if setting.layer is None or setting.kind == DEFINITION:
        return agent.home.pack
    return setting.layer.file.rpartition("/")[0] or "."


def _asked_for(
    name: str, chain: Sequence[Setting], lenient: frozenset[str]
) -> tuple[Place | None, bool]:
    """Where a fragment is appended, and whether that is a file its reader cannot mend."""
    for setting in chain:
        layer = setting.layer
        written = layer.values.get(setting.key) if layer else None
        if layer is not None and isinstance(written, tuple) and name in written:
            root = layer.file.rpartition("/")[0] or "."
            soft = any(root == pack or root.startswith(pack + "/") for pack in lenient)
            return setting.place, soft
    return None, False


def _inert(agent: Agent) -> Iterator[Problem]:
    """An agent whose own files append to a prompt that no engine touches is told so."""
    setting = agent.setting("append_fragments")
    if setting.layer is not None and setting.kind not in _INHERITED and setting.value:
        file = agent.text("prompt")
        better = file.removesuffix(".md") + ".template.md"
        yield warning(
            "append-on-plain",
            "`append_fragments` does nothing: the prompt is plain text",
            setting.place,
            f"rename {file} to {better}",
        )


def prompt_problems(city: City, disk: Disk, machine: Machine) -> list[Problem]:
    """Everything amiss with the prompts of a city, and with fragments nobody uses."""
    prompts = Prompts(city, disk, machine)
    found: dict[Problem, None] = {}
    used: set[str] = set()
    for agent in city.agents:
        if agent.broken:
            continue
        done = prompts.of(agent)
        found.update(dict.fromkeys((*done.problems, *done.aside)))
        used |= done.fragments
        failed = any(problem.is_error for problem in done.problems)
        if is_template(agent.text("prompt")) and not failed:
            found.update(dict.fromkeys(_undefined(prompts, agent)))
    found.update(dict.fromkeys(_unused(prompts, city, used)))
    return list(found)


def _undefined(prompts: Prompts, agent: Agent) -> Iterator[Problem]:
    """Variables that no session will have, in branches that were not taken this time."""
    from gascity.gotemplate import references

    if _writer(agent.setting("prompt"), agent) in prompts.lenient:
        return
    template = _parsed_prompt(prompts, agent)
    known = variables(prompts.city, agent, Scene())
    named = [one for one in references(template) if one.kind == "variable"] if template else []
    asked = {one.name for one in named if one.tentative}  # `{{ if .X }}{{ .X }}{{ end }}` is safe
    for one in named:
        if one.name not in asked and one.name not in known:
            yield _no_variable(one.name, one.file, one.line, one.col, known)


def _parsed_prompt(prompts: Prompts, agent: Agent) -> "Template | None":
    from gascity.render.prompts import parse_file

    file = agent.text("prompt")
    if file not in prompts.parsed:
        text = read_text(prompts.disk, file)
        source = TemplateFile(file, text) if text is not None else None
        prompts.parsed[file] = parse_file(source, functions(), []) if source else None
    return prompts.parsed[file]


def _no_variable(name: str, file: str, line: int, col: int, known: Mapping[str, str]) -> Problem:
    hint = did_you_mean(name, known) or "give the agent an `env` entry of that name"
    return Problem(
        "undefined-variable",
        f"nothing defines `.{name}`",
        Place(file, line=line, col=col + 1),
        hint,
    )


def _unused(prompts: Prompts, city: City, used: set[str]) -> Iterator[Problem]:
    """Fragments of the city's own that no prompt includes and nothing appends."""
    mentioned = set(used)
    own: dict[str, Template] = {}
    for agent in city.agents:
        if not agent.broken:
            mentioned |= _named_by(prompts, agent)
            own |= _own_fragments(prompts, agent)
    for template in own.values():
        mentioned |= _mentions(template)
    for template in own.values():
        whole = {} if template.blank else {template.name: template}
        for name, definition in {**whole, **template.defines}.items():
            if name not in mentioned:
                yield _idle(name, definition)


def _named_by(prompts: Prompts, agent: Agent) -> set[str]:
    """Fragments that an agent's prompt includes or its settings append."""
    appended = agent.value("append_fragments")
    names = set(appended) if isinstance(appended, tuple) else set()
    template = _parsed_prompt(prompts, agent) if is_template(agent.text("prompt")) else None
    return names | _mentions(template) if template else names


def _own_fragments(prompts: Prompts, agent: Agent) -> dict[str, "Template"]:
    found = {}
    for source in prompts.fragments(agent, agent.home.pack):
        from gascity.render.prompts import parse_file

        if source.file not in prompts.parsed:
            prompts.parsed[source.file] = parse_file(source, functions(), [])
        template = prompts.parsed[source.file]
        if template is not None and not source.lenient:
            found[source.file] = template
    return found


def _idle(name: str, definition: "Template") -> Problem:
    line = definition.nodes[0].line if definition.nodes else 1
    return warning(
        "unused-fragment",
        f"no prompt includes fragment `{name}`",
        Place(definition.file, line=line, col=1),
        "include it, append it, or take it out",
    )


def _mentions(template: "Template") -> set[str]:
    """Fragment names a file includes, those of its own definitions too."""
    from gascity.gotemplate import references

    found = set()
    for part in (template, *template.defines.values()):
        found |= {one.name for one in references(part) if one.kind == "fragment"}
    return found
