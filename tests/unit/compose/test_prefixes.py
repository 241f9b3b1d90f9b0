import pytest

from gascity.compose.city import derived_prefix
from tests.support.city import CityBuilder, problem_of


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


def test_two_rigs_never_get_the_same_prefix(city: CityBuilder) -> None:
    names = ("website", "web-engine", "Webster", "we", "w", "webs")
    text = "".join(f'[[rigs]]\nname = "{name}"\n' for name in names)
    town = city({"city.toml": f'{text}[[rigs]]\nname = "other"\nprefix = "we"\n'})
    prefixes = [rig.prefix.lower() for rig in town.rigs]
    assert len({*prefixes, "w"}) == len(prefixes) + 1  # `w` is the city's own
    assert town.rigs[-1].prefix == "we"


def test_the_same_configured_prefix_twice_is_an_error_and_not_used_twice(city: CityBuilder) -> None:
    text = "".join(f'[[rigs]]\nname = "{name}"\nprefix = "x"\n' for name in ("one", "two"))
    town = city({"city.toml": text})
    problem = problem_of(town, "duplicate-name")
    assert problem.is_error
    assert "rig `one`" in problem.message
    assert [rig.prefix for rig in town.rigs] == ["x", "two"]
