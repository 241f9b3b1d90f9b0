"""Our named tuples are the library's, but for how long they take to define."""

import copy
import pickle
import typing

import pytest

from gascity.model.records import NamedTuple


class Ours(NamedTuple):
    """A place."""

    file: str
    line: int = 1
    hint: str | None = None

    @property
    def shown(self) -> str:
        return f"{self.file}:{self.line}"


class Theirs(typing.NamedTuple):
    """A place."""

    file: str
    line: int = 1
    hint: str | None = None


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("a",), {}),
        (("a", 2), {}),
        (("a", 2, "b"), {}),
        (("a",), {"hint": "b"}),
        ((), {"line": 3, "file": "a"}),
    ],
)
def test_values_come_by_place_by_name_and_by_default(
    values: tuple[typing.Any, ...], named: dict[str, typing.Any]
) -> None:
    assert tuple(Ours(*values, **named)) == tuple(Theirs(*values, **named))


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), (("a", 1, "b", "c"), {}), (("a",), {"file": "b"}), (("a",), {"lines": 1})],
)
def test_a_wrong_call_is_refused(
    values: tuple[typing.Any, ...], named: dict[str, typing.Any]
) -> None:
    with pytest.raises(TypeError, match="Ours"):
        Ours(*values, **named)
    with pytest.raises(TypeError):
        Theirs(*values, **named)


def test_fields_are_read_by_name_and_cannot_be_set() -> None:
    one = Ours("a", 2)
    assert (one.file, one.line, one.hint, one.shown) == ("a", 2, None, "a:2")
    with pytest.raises(AttributeError):
        one.line = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        one.other = 3  # type: ignore[attr-defined]


def test_they_are_tuples() -> None:
    one = Ours("a", 2)
    assert one == ("a", 2, None)
    assert hash(one) == hash(("a", 2, None))
    assert sorted([Ours("b"), Ours("a", 2), Ours("a")]) == [Ours("a"), Ours("a", 2), Ours("b")]
    match one:
        case Ours(file, line):
            assert (file, line) == ("a", 2)


def test_they_are_changed_shown_and_taken_apart_as_ever() -> None:
    one, other = Ours("a", 2), Theirs("a", 2)
    assert one._replace(hint="b") == Ours("a", 2, "b")
    assert one._asdict() == other._asdict()
    assert repr(one) == repr(other).replace("Theirs", "Ours")
    assert Ours._make(["a", 2, None]) == one
    assert (Ours._fields, Ours._field_defaults) == (Theirs._fields, Theirs._field_defaults)
    assert Ours.__doc__ == Theirs.__doc__
    with pytest.raises(ValueError, match="lines"):
        one._replace(lines=2)  # type: ignore[call-arg]


def test_they_can_be_copied_and_sent() -> None:
    one = Ours("a", 2)
    for twin in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (type(twin), twin) == (Ours, one)
