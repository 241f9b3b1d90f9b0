import pytest

from gascity.compose.city import derived_prefix
from tests.support.city import CityBuilder


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("web", "web"),
        ("a", "a"),
        ("Web", "web"),
        ("website", "we"),
        ("api-server", "as"),
        ("my_big_project", "mbp"),
        ("Tables.jl", "tj"),
        ("gasCity", "gc"),
        ("GasCity", "gc"),
        ("client-py", "cl"),
        ("tool-go", "tool"[:2]),
        ("a-b-py", "ab"),
        ("2048", "20"),
    ],
)
def test_a_prefix_is_made_of_initials_or_first_letters(name: str, prefix: str) -> None:
    assert derived_prefix(name) == prefix


def test_every_rig_has_a_prefix_however_odd_its_name() -> None:
    for name in ("py", "go", "x-py", "HTTP", "aB", "a--b", "a.b.c", "A_"):
        assert derived_prefix(name), name
        assert derived_prefix(name) == derived_prefix(name).lower()


def test_a_configured_prefix_is_used_unchanged(city: CityBuilder) -> None:
    town = city({"city.toml": '[[rigs]]\nname = "website"\nprefix = "W3"\n'})
    assert town.rigs[0].prefix == "W3"
