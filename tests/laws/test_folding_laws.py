"""Laws of folding: what layers say together does not depend on how they are gathered."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from gascity.model.fields import AGENT, Kind, Merge
from gascity.model.layers import (
    CITY_DEFAULTS,
    CITY_PATCH,
    DEFINITION,
    LOCAL_PATCH,
    PACK_DEFAULTS,
    PACK_PATCH,
    RIG_PATCH,
    Layer,
    Setting,
    fold,
    fold_field,
    with_defaults,
)

ORDER = (
    PACK_DEFAULTS,
    CITY_DEFAULTS,
    DEFINITION,
    PACK_PATCH,
    CITY_PATCH,
    RIG_PATCH,
    LOCAL_PATCH,
)
words = st.sampled_from(["ash", "birch", "cedar", "elm"])
lists = st.lists(words, max_size=3).map(tuple)
maps = st.dictionaries(words, words, max_size=3)

# One field of every merge rule and kind that the table has, and the edits each takes.
VALUES: dict[str, st.SearchStrategy[object]] = {
    "nudge": words,
    "max_active_sessions": st.integers(-1, 9),
    "hidden": st.booleans(),
    "pre_start": lists,
    "pre_start_append": lists,
    "pre_start_remove": lists,
    "env": maps,
    "env_remove": lists,
    "options": maps,
    "append_fragments": lists,
    "append_fragments_append": lists,
    "append_fragments_remove": lists,
    "tools.allow": lists,
    "tools.allow_append": lists,
    "tools.deny": lists,
    "tools.deny_append": lists,
    "tools.deny_remove": lists,
}


def layer_of(kinds: tuple[str, ...], *, may_shrink: bool = True) -> st.SearchStrategy[Layer]:
    values = st.fixed_dictionaries({}, optional=VALUES)
    shrink = st.booleans() if may_shrink else st.just(False)
    return st.builds(Layer, st.sampled_from(kinds), st.just("x.toml"), values, may_shrink=shrink)


def stack(*, may_shrink: bool = True) -> st.SearchStrategy[list[Layer]]:
    """Layers in the order a city folds them: defaults, definition, patches."""
    found = st.lists(layer_of(ORDER, may_shrink=may_shrink), max_size=4)
    return found.map(lambda layers: sorted(layers, key=lambda layer: ORDER.index(layer.kind)))


def values(settings: Mapping[str, Setting]) -> dict[str, object]:
    return {name: setting.value for name, setting in settings.items()}


@given(stack(), st.data())
def test_folding_in_two_halves_changes_nothing(layers: list[Layer], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(layers)))
    low, high = layers[:cut], layers[cut:]
    assert fold(high, AGENT, onto=fold(low, AGENT)) == fold(layers, AGENT)


@given(stack(), stack(), stack())
def test_how_layers_are_bracketed_does_not_matter(
    low: list[Layer], middle: list[Layer], high: list[Layer]
) -> None:
    left = fold(high, AGENT, onto=fold(middle, AGENT, onto=fold(low, AGENT)))
    right = fold([*middle, *high], AGENT, onto=fold(low, AGENT))
    assert left == right


@given(stack())
def test_no_layers_change_nothing(layers: list[Layer]) -> None:
    below = fold(layers, AGENT)
    assert fold([], AGENT, onto=below) == below
    assert fold([], AGENT) == {}


@given(stack(), st.sampled_from(ORDER))
def test_an_empty_layer_changes_nothing(layers: list[Layer], kind: str) -> None:
    silent = Layer(kind, "x.toml", {})
    assert fold([silent, *layers, silent], AGENT) == fold(layers, AGENT)


@given(stack())
def test_one_field_alone_folds_as_it_does_among_all(layers: list[Layer]) -> None:
    whole = with_defaults(fold(layers, AGENT), AGENT)
    for name in AGENT.fields:
        assert fold_field(layers, AGENT, name).value == whole[name].value, name


@given(stack())
def test_every_field_has_a_value_and_every_history_ends_at_the_default(
    layers: list[Layer],
) -> None:
    for name, field in AGENT.fields.items():
        last = fold_field(layers, AGENT, name).chain()[-1]
        assert (last.value, last.layer) == (field.default, None)


@given(stack())
def test_a_history_tells_exactly_the_layers_that_speak_of_a_field(layers: list[Layer]) -> None:
    for name in ("nudge", "env", "pre_start", "append_fragments"):
        keys = [key for key, (field, _) in AGENT.keys.items() if field.name == name]
        spoken = [layer for layer in layers for key in keys if key in layer.values]
        order = [setting.layer for setting in fold_field(layers, AGENT, name).chain()[:-1]]
        assert order == spoken[::-1]


REPLACED = [
    name
    for name in ("nudge", "max_active_sessions", "hidden", "pre_start", "tools.allow")
    if AGENT.fields[name].merge is Merge.REPLACE
]


@given(stack(), st.sampled_from(REPLACED), st.data())
def test_a_later_replace_always_wins(layers: list[Layer], name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name])
    top = Layer(LOCAL_PATCH, "x.toml", {name: value})
    assert fold_field([*layers, top], AGENT, name).value == value


@given(stack(), st.sampled_from(["pre_start", "append_fragments", "tools.allow"]))
def test_an_empty_list_clears(layers: list[Layer], name: str) -> None:
    top = Layer(LOCAL_PATCH, "x.toml", {name: ()})
    assert fold_field([*layers, top], AGENT, name).value == ()


@given(stack(), maps)
def test_maps_merge_by_key(layers: list[Layer], more: dict[str, str]) -> None:
    below = fold_field(layers, AGENT, "env").value
    assert isinstance(below, Mapping)
    after = fold_field([*layers, Layer(LOCAL_PATCH, "x", {"env": more})], AGENT, "env").value
    assert after == {**below, **more}


@given(stack(), lists)
def test_env_remove_takes_away_those_keys_and_no_others(
    layers: list[Layer], gone: tuple[str, ...]
) -> None:
    below = fold_field(layers, AGENT, "env").value
    assert isinstance(below, Mapping)
    top = Layer(LOCAL_PATCH, "x", {"env_remove": gone})
    after = fold_field([*layers, top], AGENT, "env").value
    assert after == {key: value for key, value in below.items() if key not in gone}


@given(stack(), lists)
def test_append_puts_at_the_end_and_remove_takes_all_of_a_word(
    layers: list[Layer], these: tuple[str, ...]
) -> None:
    below = fold_field(layers, AGENT, "pre_start").value
    assert isinstance(below, tuple)
    added = Layer(LOCAL_PATCH, "x", {"pre_start_append": these})
    taken = Layer(LOCAL_PATCH, "x", {"pre_start_remove": these})
    assert fold_field([*layers, added], AGENT, "pre_start").value == (*below, *these)
    left = fold_field([*layers, taken], AGENT, "pre_start").value
    assert left == tuple(word for word in below if word not in these)


@given(stack(may_shrink=False), layer_of((PACK_PATCH, DEFINITION), may_shrink=False))
def test_denied_tools_never_shrink_without_a_patch_of_the_city(
    layers: list[Layer], top: Layer
) -> None:
    before = fold_field(layers, AGENT, "tools.deny").value
    after = fold_field([*layers, top], AGENT, "tools.deny").value
    assert isinstance(before, tuple)
    assert isinstance(after, tuple)
    assert after[: len(before)] == before


@given(stack(), lists)
def test_a_patch_of_the_city_may_take_a_denial_back(
    layers: list[Layer], gone: tuple[str, ...]
) -> None:
    top = Layer(CITY_PATCH, "x", {"tools.deny_remove": gone}, may_shrink=True)
    after = fold_field([*layers, top], AGENT, "tools.deny").value
    assert isinstance(after, tuple)
    assert not set(after) & set(gone)


@given(lists, lists, lists)
def test_fragments_stand_agent_first_then_pack_then_city_each_once(
    own: tuple[str, ...], pack: tuple[str, ...], city: tuple[str, ...]
) -> None:
    layers = [
        Layer(PACK_DEFAULTS, "pack.toml", {"append_fragments": pack}),
        Layer(CITY_DEFAULTS, "city.toml", {"append_fragments": city}),
        Layer(DEFINITION, "agent.toml", {"append_fragments": own}),
    ]
    inherited = (*pack, *city) if city else ()
    expected = tuple(dict.fromkeys((*own, *inherited))) if own else ()
    assert fold_field(layers, AGENT, "append_fragments").value == expected


@given(stack())
def test_fragments_are_never_there_twice(layers: list[Layer]) -> None:
    value = fold_field(layers, AGENT, "append_fragments").value
    assert isinstance(value, tuple)
    assert len(set(value)) == len(value)


@given(stack())
def test_tools_without_limits_stay_unlimited(layers: list[Layer]) -> None:
    """Absent means everything; only a written list or removal can make it less."""
    if not any("tools.allow" in layer.values for layer in layers):
        assert fold_field(layers, AGENT, "tools.allow").value is None


@given(stack())
def test_keys_that_no_field_has_are_left_alone(layers: list[Layer]) -> None:
    odd = [
        Layer(
            layer.kind, layer.file, {**layer.values, "no-such-key": 1}, may_shrink=layer.may_shrink
        )
        for layer in layers
    ]
    assert values(fold(odd, AGENT)) == values(fold(layers, AGENT))


def test_the_law_speaks_of_every_merge_rule() -> None:
    assert {AGENT.keys[key][0].merge for key in VALUES} == set(Merge)
    assert {Kind.STRINGS, Kind.STRING_MAP, Kind.ANY_MAP, Kind.INTEGER} <= {
        AGENT.keys[key][0].kind for key in VALUES
    }
