"""The context line before the text of a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.control.message_context import with_context, without_context
from gascity.model.problems import CityError

keys = st.text("abcxyz-", min_size=1, max_size=8)


@given(st.dictionaries(keys, st.text(max_size=20), max_size=4), st.text(max_size=30))
def test_the_text_stays_unchanged_after_one_line_of_xml(context: dict[str, str], text: str) -> None:
    from html import unescape

    whole = with_context(text, context)
    assert whole.endswith(text)
    if context:
        line, _, rest = whole.partition("\n")
        assert rest == text
        assert without_context(whole) == text
        assert line.startswith("<context ")
        assert line.endswith("/>")
        for key, value in context.items():
            assert f' {key}="' in line
            if "\x00" not in value and value.isprintable():
                assert value in unescape(line)


@pytest.mark.parametrize("key", ["", "Panel", "a b", "a=b", "a_b", "ä", 'a"'])
def test_a_key_with_other_characters_is_refused(key: str) -> None:
    with pytest.raises(CityError, match="not a valid context key"):
        with_context("x", {"a": "1", key: "2"})
