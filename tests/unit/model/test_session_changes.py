"""The type of changes to a session follows the record of a session."""

from typing import get_type_hints

from gascity.model.session_changes import SessionChanges
from gascity.model.work import Session

SET_BY_THE_STORE = {"id", "created", "updated"}


def test_every_field_of_a_session_can_change_and_keeps_its_type() -> None:
    fields = get_type_hints(Session)
    expected = {name: fields[name] for name in fields if name not in SET_BY_THE_STORE}
    assert get_type_hints(SessionChanges) == expected
