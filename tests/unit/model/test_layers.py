import pytest

from gascity.model.fields import AGENT
from gascity.model.layers import CITY_PATCH, DEFINITION, PACK_DEFAULTS, Layer, fold, fold_field
from gascity.model.problems import Place


def layers_of(*layers: dict[str, object]) -> list[Layer]:
    return [Layer(DEFINITION, f"{at}.toml", values) for at, values in enumerate(layers)]


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(
            [{"pre_start": ("a",), "pre_start_append": ("b", "c"), "pre_start_remove": ("b",)}],
            id="in-one-table",
        ),
        pytest.param(
            [{"pre_start": ("a",)}, {"pre_start_remove": ("b",), "pre_start_append": ("b", "c")}],
            id="over-another",
        ),
    ],
)
def test_a_table_sets_then_appends_then_removes_however_it_is_read(
    tables: list[dict[str, object]],
) -> None:
    assert fold(layers_of(*tables), AGENT)["pre_start"].value == ("a", "c")
    assert fold_field(layers_of(*tables), AGENT, "pre_start").value == ("a", "c")


def test_appending_to_unlimited_tools_leaves_them_unlimited() -> None:
    layers = layers_of({"tools.allow_append": ("read",)})
    assert fold_field(layers, AGENT, "tools.allow").value is None


def test_unset_is_not_empty() -> None:
    assert fold_field(layers_of(), AGENT, "tools.allow").value is None
    assert fold_field(layers_of({"tools.allow": ()}), AGENT, "tools.allow").value == ()


def test_a_history_goes_from_the_winner_to_the_default() -> None:
    layers = [
        Layer(PACK_DEFAULTS, "pack.toml", {"nudge": "a"}),
        Layer(DEFINITION, "agent.toml", {"nudge": "b"}),
        Layer(CITY_PATCH, "city.toml", {"nudge": "c"}),
    ]
    chain = fold_field(layers, AGENT, "nudge").chain()
    assert [(s.value, s.kind) for s in chain] == [
        ("c", "city patch"),
        ("b", "definition"),
        ("a", "pack defaults"),
        (None, "default"),
    ]


def test_a_setting_knows_the_words_it_was_written_with() -> None:
    layer = Layer(
        DEFINITION,
        "agent.toml",
        {"append_fragments": ("x",)},
        written={"append_fragments": "inject_fragments"},
    )
    setting = fold_field([layer], AGENT, "append_fragments")
    assert setting.place == Place("agent.toml", ("inject_fragments",))


def test_a_nested_setting_is_placed_under_its_table() -> None:
    layer = Layer(CITY_PATCH, "city.toml", {"tools.allow": ("x",)}, ("patches", "agent", 0))
    setting = fold_field([layer], AGENT, "tools.allow")
    assert setting.place == Place("city.toml", ("patches", "agent", 0, "tools", "allow"))


def test_a_default_value_has_no_place() -> None:
    assert fold_field([], AGENT, "nudge").place is None


@pytest.mark.parametrize(
    ("file", "place"),
    [
        pytest.param("a/prompt.md", Place("a/prompt.md", line=1, col=1), id="a-file"),
        pytest.param("agents/claude", Place("agents/claude"), id="a-directory"),
    ],
)
def test_a_setting_implied_by_a_file_is_placed_at_the_file(file: str, place: Place) -> None:
    layer = Layer(DEFINITION, file, {"prompt": file}, written={"prompt": ""})
    assert layer.place("prompt") == place
