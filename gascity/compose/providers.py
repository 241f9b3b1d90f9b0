"""Composes providers: the layers of the base, then the provider's own, then the city's tables."""

from collections.abc import Container, Iterable, Mapping, Sequence

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean
from gascity.model.pack import Import, Pack, Sources, unread
from gascity.model.problems import Place, Problem
from gascity.model.provider import Choice, Option, Provider
from gascity.model.values import TableView, as_list

Tables = dict[str, tuple[Layer, ...]]


def compose_providers(
    sources: Sources, known: Iterable[str]
) -> tuple[dict[str, Provider], list[Problem]]:
    """Return the providers of a city, as agents of the city itself see them.

    Imported packs add providers with new names. They change neither built-in providers nor those
    that the city defines. `known` are the built-in ones, loaded or not.
    """
    builtin = set(known)
    added = _PackTables(builtin).added(sources.imports)
    providers, problems = _composed(_with_city_tables(added, sources), sources, builtin)
    return providers, [] if problems and unread(sources.imports) else problems


def _composed(
    tables: Tables, sources: Sources, builtin: set[str]
) -> tuple[dict[str, Provider], list[Problem]]:
    problems: list[Problem] = []
    providers = {}
    for name in dict.fromkeys([*sources.stock, *tables]):
        own_problems: list[Problem] = []
        layers, family = _chain(name, tables, sources.stock, builtin, own_problems, ())
        providers[name] = Provider(name, family, tuple(layers), _options(layers))
        for problem in own_problems:  # users cannot fix the tables of an imported pack
            _add(problems, problem if name in sources.providers else problem.softened())
    return providers, problems


def _with_city_tables(tables: Tables, sources: Sources, scoped: Container[str] = ()) -> Tables:
    """Put the city's tables over those of packs, and return them.

    The city may adjust a provider of a pack. One with a `base` or `command` is its own: packs
    change it only for their agents (`scoped`).
    """
    for name, layers in sources.providers.items():
        own = any("base" in layer.values or "command" in layer.values for layer in layers)
        below = () if own and name not in scoped else tables.get(name, ())
        tables[name] = (*below, *layers)
    return tables


class _PackTables:
    """Provider tables of packs. Each pack is examined once, as many may import the same one."""

    def __init__(self, builtin: set[str]) -> None:
        self.builtin = builtin
        self._visible: dict[str, Tables] = {}

    def added(self, imports: Sequence[Import]) -> Tables:
        """Return what imports add for their importer: providers with new names.

        Of two imports that add the same name, the first wins.
        """
        tables: Tables = {}
        for imported in reversed(imports):
            if imported.pack is not None:
                visible = self.visible(imported.pack)
                tables |= {name: own for name, own in visible.items() if name not in self.builtin}
        return tables

    def visible(self, pack: Pack) -> Tables:
        """Return what applies to a pack's own agents: its tables over what its imports add."""
        if pack.root not in self._visible:
            tables = self.added(pack.imports)
            for name, layers in _own_tables(pack).items():
                tables[name] = (*tables.get(name, ()), *layers)
            self._visible[pack.root] = tables
        return self._visible[pack.root]


def _own_tables(pack: Pack) -> Mapping[str, tuple[Layer, ...]]:
    """Return a pack's own tables; none if the user has not accepted the pack."""
    return pack.providers if pack.accepted else {}


class PackProviders:
    """Providers as the agents of imported packs see them.

    A pack can change a built-in provider, one of the city or one of another pack, but only for its
    own agents and for those it imports. `changed` has, by scope, the providers that differ from the
    city's; `names` has the names that the packs of a scope define.
    """

    def __init__(
        self, sources: Sources, known: Iterable[str], providers: Mapping[str, Provider]
    ) -> None:
        self.sources = sources
        self.builtin = set(known)
        self.providers = providers
        self.changed: dict[str, dict[str, Provider]] = {}
        self.names: dict[str, frozenset[str]] = {}
        self.problems: list[Problem] = []
        self._packs = _PackTables(self.builtin)
        self._added = self._packs.added(sources.imports)

    def scope(self, packs: tuple[Pack, ...]) -> str:
        """Return the scope of an agent, "" if it sees the city's providers.

        `packs` are those it comes from, the one that defines it first.
        """
        scope = "\0".join(pack.root for pack in packs)
        if scope not in self.names:
            tables = self._tables(packs)
            self.names[scope] = frozenset(tables)
            self._compose(scope, tables)
        return scope if self.names[scope] else ""

    def _tables(self, packs: tuple[Pack, ...]) -> Tables:
        """Return the tables of packs that apply to an agent: importers over imported packs."""
        tables: Tables = {}
        for pack in packs:
            own = _own_tables(pack)
            changed = {name: (*layers, *own.get(name, ())) for name, layers in tables.items()}
            tables = {**self._packs.visible(pack), **changed}
        return tables

    def _compose(self, scope: str, tables: Tables) -> None:
        if not tables:
            return
        every = _with_city_tables({**self._added, **tables}, self.sources, tables)
        providers, problems = _composed(every, self.sources, self.builtin)
        self.changed[scope] = {
            name: provider
            for name, provider in providers.items()
            if provider != self.providers.get(name)
        }
        self.problems += [problem for problem in problems if problem not in self.problems]


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
    if own and not any("command" in layer.values or layer.errors for layer in own):
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
        for table in TableView(layer.values).tables("options_schema"):  # already validated
            key = table.text("key")
            if table.values.get("omit"):
                options.pop(key, None)
            elif key:
                options[key] = _option(key, table, options.get(key, Option(key)))
    return options


def _option(key: str, table: TableView, below: Option) -> Option:
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
        bool(table.values.get("saved", below.saved)),
    )


def _choice(table: TableView) -> Choice:
    env = table.table("env")
    return Choice(
        str(table.values.get("value", "")),
        _strings(table.values.get("flag_args")),
        tuple((name, env.text(name)) for name in sorted(env.values)) if env else (),
        table.text("only"),
    )


def _strings(value: object) -> tuple[str, ...]:
    """Return arguments as text; a number in a list of arguments is common."""
    return tuple(map(str, as_list(value)))
