"""Providers put together: base under derived, the city's own tables on top."""

from collections.abc import Iterable, Mapping

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean
from gascity.model.pack import Pack, Sources, unread
from gascity.model.problems import Place, Problem
from gascity.model.provider import Choice, Option, Provider


def compose_providers(
    sources: Sources, known: Iterable[str]
) -> tuple[dict[str, Provider], list[Problem]]:
    """Every provider the city can name. `known` are the shipped ones, read or not."""
    tables = provider_tables(sources)
    problems: list[Problem] = []
    shipped = set(known)
    found = {}
    for name in dict.fromkeys([*sources.stock, *tables]):
        faults: list[Problem] = []
        found[name] = _provider(name, tables, sources.stock, shipped, faults)
        for fault in faults:  # a pack's own tables are not its user's to mend
            _note(problems, fault if name in sources.providers else fault.softened())
    return found, [] if problems and unread(sources.imports) else problems


def provider_tables(sources: Sources) -> dict[str, tuple[Layer, ...]]:
    """The city's provider tables over those of the packs it imports, the first import nearest."""
    tables: dict[str, tuple[Layer, ...]] = {}
    roots = [one.pack for one in sources.pack.imports]
    roots += [one.pack for rig in sources.rigs for one in rig.imports]
    for pack in reversed([pack for pack in roots if pack]):
        _stack(pack, tables, set())
    for name, layers in sources.providers.items():
        tables[name] = (*tables.get(name, ()), *layers)
    return tables


def _stack(pack: Pack, tables: dict[str, tuple[Layer, ...]], done: set[str]) -> None:
    if pack.root in done:
        return
    done.add(pack.root)
    for one in reversed(pack.imports):
        if one.pack:
            _stack(one.pack, tables, done)
    for name, layers in pack.providers.items():
        tables[name] = (*tables.get(name, ()), *layers)


def _provider(
    name: str,
    tables: Mapping[str, tuple[Layer, ...]],
    stock: Mapping[str, Layer],
    shipped: set[str],
    problems: list[Problem],
) -> Provider:
    layers, family = _chain(name, tables, stock, shipped, problems, ())
    return Provider(name, family, tuple(layers), _options(layers), {})


def _chain(
    name: str,
    tables: Mapping[str, tuple[Layer, ...]],
    stock: Mapping[str, Layer],
    shipped: set[str],
    problems: list[Problem],
    above: tuple[str, ...],
) -> tuple[list[Layer], str]:
    """The layers of a provider, lowest first, and the shipped provider they rest on."""
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
        below, family = _chain(target, tables, stock, shipped, problems, (*above, name))
        return [*below, *own], family
    hint = (
        "it leads back to itself"
        if target in (*above, name)
        else did_you_mean(target, {*tables, *shipped})
    )
    _note(
        problems,
        Problem("unknown-provider", f"provider `{name}` has no base `{base}`", place, hint),
    )
    return own, ""


def _check_alone(name: str, own: list[Layer], problems: list[Problem]) -> None:
    if own and not any("command" in layer.values for layer in own):
        _note(
            problems,
            Problem(
                "unknown-provider",
                f"provider `{name}` has neither `base` nor `command`",
                Place(own[-1].file, own[-1].at),
                'say what it is: base = "claude" or command = "…"',
            ),
        )


def _note(problems: list[Problem], problem: Problem) -> None:
    if problem not in problems:
        problems.append(problem)


def _options(layers: list[Layer]) -> dict[str, Option]:
    """Options of the nearest schema; `options_schema_merge = "by_key"` adds to those below."""
    options: dict[str, Option] = {}
    for layer in layers:
        tables = layer.values.get("options_schema")
        if not isinstance(tables, tuple):
            continue
        if layer.values.get("options_schema_merge") != "by_key":
            options = {}
        for table in tables:
            key = table.get("key")
            if table.get("omit"):
                options.pop(key, None)
            elif isinstance(key, str):
                options[key] = _option(key, table, options.get(key, Option(key)))
    return options


def _option(key: str, table: Mapping[str, object], below: Option) -> Option:
    """What a table says of an option over what is known of it; choices add up by their values."""
    written = table.get("choices")
    choices = {one.value: one for one in below.choices}
    choices |= {
        one.value: one for one in map(_choice, written if isinstance(written, list) else ())
    }
    default, pattern = table.get("default"), table.get("pattern")
    return Option(
        key,
        tuple(choices.values()),
        default if isinstance(default, str) else below.default,
        _strings(table.get("flag")) or below.flag,
        pattern if isinstance(pattern, str) else below.pattern,
        str(table.get("only", below.only)),
    )


def _choice(table: object) -> Choice:
    if not isinstance(table, dict):
        return Choice(str(table))
    env = table.get("env")
    return Choice(
        str(table.get("value", "")),
        _strings(table.get("flag_args")),
        tuple(sorted(env.items())) if isinstance(env, dict) else (),
        str(table.get("only", "")),
    )


def _strings(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()
