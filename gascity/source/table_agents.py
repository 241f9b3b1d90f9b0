"""Agents that stand in a table of a manifest, as a dialect found them."""

from gascity.model.layers import DEFINITION, Layer
from gascity.model.pack import AgentDir
from gascity.model.problems import Place, Problem
from gascity.model.tree import TableAgent
from gascity.source.agents import check_prompt, decode_agent, no_prompt, read_agent, softened
from gascity.source.disk import Disk

_PROMPT_HINT = "name one as `prompt_template`, in its table or in a patch"


def read_table_agent(disk: Disk, one: TableAgent, file: str, pack: str, *, own: bool) -> AgentDir:
    """An agent from its table; what a folder of its own says lies under it.

    `file` and `pack` are absolute. Where it has no folder its place is the table's.
    """
    before = len(disk.problems)
    folder = (
        read_agent(disk, f"{pack}/{one.folder}", one.name, pack, own=own) if one.folder else None
    )
    shown = disk.shown(file)
    decoded = decode_agent(disk, one.table, file, one.at, pack)
    written = {key: spelled for key, spelled in one.written.items() if key in decoded.values}
    table = Layer(DEFINITION, shown, decoded.values, one.at, {**decoded.written, **written} or None)
    layers = (*(folder.layers if folder else ()), table)
    below = folder.problems if folder else ()
    problems = [*(p for p in below if p.code != "no-prompt")]
    problems += [_where_written(problem, one) for problem in decoded.problems]
    home = folder.directory if folder else f"{shown}#{one.name}"
    told = check_prompt(disk, list(reversed(layers)), pack, problems)
    noted = disk.problems[before:]
    del disk.problems[before:]
    if not told and not any(problem.is_error for problem in (*problems, *noted)):
        fault = no_prompt(home, one.name, set())._replace(place=Place(shown, one.at))
        problems.append(fault if folder else fault._replace(hint=_PROMPT_HINT))
    return AgentDir(
        one.name,
        home,
        disk.shown(pack),
        layers,
        folder.catalogues if folder else frozenset(),
        tuple(softened([*noted, *problems], own)),
        one.table.get("fallback") is True,
    )


def _where_written(problem: Problem, one: TableAgent) -> Problem:
    """A problem of a setting, at the key that the file has for it."""
    place = problem.place
    if place is None or place.path[: len(one.at)] != one.at:
        return problem
    key = ".".join(str(part) for part in place.path[len(one.at) :])
    spelled = one.written.get(key)
    path = (*one.at, *spelled.split(".")) if spelled else place.path
    return problem._replace(place=place._replace(path=path))
