"""Finds what is wrong with template prompts and fragments, also in branches that are not taken.

Imports the template engine, so import this module only if there is a template.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from gascity.gotemplate import Template, references
from gascity.model.city import Agent
from gascity.model.names import did_you_mean
from gascity.model.problems import Place, Problem, warning
from gascity.model.session_context import SessionContext
from gascity.prompts import Prompts, pack_of
from gascity.render.templates import TemplateFile, parse_fragment
from gascity.render.variables import functions, variables
from gascity.source.catalogues import read_text


def undefined_variables(prompts: Prompts, agent: Agent) -> Iterator[Problem]:
    """Yield variables that no session defines, also in branches that were not taken."""
    if pack_of(agent.setting("prompt"), agent) in prompts.lenient:
        return
    template = _parsed_prompt(prompts, agent)
    known = variables(prompts.city, agent, SessionContext())
    used = [each for each in references(template) if each.kind == "variable"] if template else []
    guarded = {each.name for each in used if each.tentative}  # `{{ if .X }}{{ .X }}{{ end }}`
    for variable in used:
        if variable.name not in guarded and variable.name not in known:
            place = Place(variable.file, line=variable.line, col=variable.col + 1)
            yield _undefined_variable(variable.name, place, known)


def _undefined_variable(name: str, place: Place, known: Mapping[str, str]) -> Problem:
    hint = did_you_mean(name, known) or "give the agent an `env` entry of that name"
    return Problem("undefined-variable", f"`.{name}` is not defined", place, hint)


def _parsed_prompt(prompts: Prompts, agent: Agent) -> Template | None:
    file = agent.settings.prompt or ""
    if file not in prompts.parsed:
        text = read_text(prompts.disk, file)
        source = TemplateFile(file, text) if text is not None else None
        prompts.parsed[file] = parse_fragment(source, functions(), []) if source else None
    return prompts.parsed[file]


def unused_fragments(
    prompts: Prompts, agents: Sequence[Agent], included: Collection[str]
) -> Iterator[Problem]:
    """Yield the city's own fragments that no prompt includes and no setting appends.

    `included` are those that the prompts of the agents include.
    """
    included = set(included)
    own: dict[str, Template] = {}
    for agent in agents:
        own |= _own_fragments(prompts, agent)
    for template in own.values():
        included |= _includes(template)
    for template in own.values():
        whole = {} if template.blank else {template.name: template}
        for name, definition in {**whole, **template.defines}.items():
            if name not in included:
                line = definition.nodes[0].line if definition.nodes else 1
                yield warning(
                    "unused-fragment",
                    f"no prompt includes fragment `{name}`",
                    Place(definition.file, line=line, col=1),
                    "include it, append it, or remove it",
                )


def included_by(prompts: Prompts, agent: Agent) -> set[str]:
    """Return the fragments that a template prompt includes."""
    template = _parsed_prompt(prompts, agent)
    return _includes(template) if template else set()


def _own_fragments(prompts: Prompts, agent: Agent) -> dict[str, Template]:
    """Return the parsed fragment files that the user can edit, by file."""
    found = {}
    for source in prompts.fragments(agent, agent.home.pack):
        if source.file not in prompts.parsed:
            prompts.parsed[source.file] = parse_fragment(source, functions(), [])
        template = prompts.parsed[source.file]
        if template is not None and not source.lenient:
            found[source.file] = template
    return found


def _includes(template: "Template") -> set[str]:
    """Return the fragments that a file includes, also in its definitions."""
    parts = (template, *template.defines.values())
    return {each.name for part in parts for each in references(part) if each.kind == "fragment"}
