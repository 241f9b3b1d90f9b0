"""Composes providers: the layers of the base, then the provider's own, then the city's tables."""

from collections.abc import Iterable, Mapping

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean
from gascity.model.pack import Pack, Sources, unread
from gascity.model.problems import Place, Problem
from gascity.model.provider import Choice, Option, Provider
from gascity.toml.read import TomlTable


def compose_providers(
    sources: Sources, known: Iterable[str]
) -> tuple[dict[str, Provider], list[Problem]]:
    """Return all providers of a city. `known` are the built-in ones, loaded or not."""
    tables = provider_tables(sources)
    problems: list[Problem] = []
    builtin = set(known)
    providers = {}
    for name in dict.fromkeys([*sources.stock, *tables]):
        own_problems: list[Problem] = []
        layers, family = _chain(name, tables, sources.stock, builtin, own_problems, ())
        providers[name] = Provider(name, family, tuple(layers), _options(layers))
        for problem in own_problems:  # users cannot fix the tables of an imported pack
            _add(problems, problem if name in sources.providers else problem.softened())
    return providers, [] if problems and unread(sources.imports) else problems


def provider_tables(sources: Sources) -> dict[str, tuple[Layer, ...]]:
    """Return the provider tables of imported packs, the first import last, then the city's."""
    tables: dict[str, tuple[Layer, ...]] = {}
    roots = [imported.pack for imported in sources.pack.imports]
    roots += [imported.pack for rig in sources.rigs for imported in rig.imports]
    for pack in reversed([pack for pack in roots if pack]):
        _stack(pack, tables, set())
    for name, layers in sources.providers.items():
        tables[name] = (*tables.get(name, ()), *layers)
    return tables


def _stack(pack: Pack, tables: dict[str, tuple[Layer, ...]], done: set[str]) -> None:
    if pack.root in done:
        return
    done.add(pack.root)
    for imported in reversed(pack.imports):
        if imported.pack:
            _stack(imported.pack, tables, done)
    for name, layers in pack.providers.items():
        tables[name] = (*tables.get(name, ()), *layers)


def _chain(
    name: str,
    tables: Mapping[str, tuple[Layer, ...]],
    stock: Mapping[str, Layer],
    builtin: set[str],
    problems: list[Problem],
    above: tuple[str, ...],
) -> tuple[list[Layer], str]:
    """Return the layers of a provider, lowest first, and the built-in provider below them."""
    own = list(tables.get(name, ()))
    written = [layer for layer in own if "base" in layer.values]
    base = str(written[-1].values["base"]) if written else None
    if base is None or base == "":
        if base is None and name in stock:
            return [stock[name], *own], name
        _check_alone(name, own, problems)
        return own, ""
    place = written[-1].place("base")
    kind, _, target = base.rpartition(":")
    if (
        kind != "provider"
        and target in stock
        and (kind == "builtin" or target not in tables or target == name)
    ):
        return [stock[target], *own], target
    if kind != "builtin" and target in tables and target not in (*above, name):
        below, family = _chain(target, tables, stock, builtin, problems, (*above, name))
        return [*below, *own], family
    hint = (
        "it inherits from itself"
        if target in (*above, name)
        else did_you_mean(target, {*tables, *builtin})
    )
    _add(
        problems,
        Problem("unknown-provider", f"provider `{name}`: unknown base `{base}`", place, hint),
    )
    return own, ""


def _check_alone(name: str, own: list[Layer], problems: list[Problem]) -> None:
    if own and not any("command" in layer.values for layer in own):
        _add(
            problems,
            Problem(
                "unknown-provider",
                f"provider `{name}` has neither `base` nor `command`",
                Place(own[-1].file, own[-1].at),
                'set one of them: base = "claude" or command = "…"',
            ),
        )


def _add(problems: list[Problem], problem: Problem) -> None:
    if problem not in problems:
        problems.append(problem)


def _options(layers: list[Layer]) -> dict[str, Option]:
    """Return the options of the topmost schema; with `by_key`, merged into those below."""
    options: dict[str, Option] = {}
    for layer in layers:
        if "options_schema" not in layer.values:
            continue
        if layer.values.get("options_schema_merge") != "by_key":
            options = {}
        schema = TomlTable(layer.values, layer.file, layer.at, [])  # already validated
        for table in schema.tables("options_schema"):
            key = table.text("key")
            if table.values.get("omit"):
                options.pop(key, None)
            elif key:
                options[key] = _option(key, table, options.get(key, Option(key)))
    return options


def _option(key: str, table: TomlTable, below: Option) -> Option:
    """Return an option with a table merged into it; choices merge by value."""
    choices = {choice.value: choice for choice in below.choices}
    choices |= {choice.value: choice for choice in map(_choice, table.tables("choices"))}
    return Option(
        key,
        tuple(choices.values()),
        table.text("default") if "default" in table.values else below.default,
        _strings(table.values.get("flag")) or below.flag,
        table.text("pattern") if "pattern" in table.values else below.pattern,
        table.text("only") if "only" in table.values else below.only,
    )


def _choice(table: TomlTable) -> Choice:
    env = table.table("env")
    return Choice(
        str(table.values.get("value", "")),
        _strings(table.values.get("flag_args")),
        tuple((name, env.text(name)) for name in sorted(env.values)) if env else (),
        table.text("only"),
    )


def _strings(value: object) -> tuple[str, ...]:
    """Return arguments as text; a number in a list of arguments is common."""
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
