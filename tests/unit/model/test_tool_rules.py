"""Which tools of a server an agent may call."""

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from gascity.model.tool_rules import Refusal, ToolRules, ToolWord

names = st.sampled_from(("find", "drop", "drop_all", "f", ""))
globs = st.sampled_from(("*", "find", "drop*", "f*", "x", "?", "[fd]*"))
words = st.lists(globs.map(lambda glob: ToolWord(f"docs/{glob}", glob)), max_size=3).map(tuple)
capabilities = st.lists(st.sampled_from(("docs.read", "docs.write", "net")), max_size=3).map(tuple)
capability_words = st.lists(st.sampled_from(("*", "docs.*", "docs.write", "net")), max_size=2)
rules = st.builds(
    ToolRules,
    st.none() | words,
    words,
    words,
    st.none() | capability_words.map(tuple),
    capability_words.map(tuple),
    capabilities,
    st.dictionaries(names, capabilities, max_size=2),
)


@given(rules, names)
def test_a_denied_tool_is_refused_whatever_allows_it(rules: ToolRules, tool: str) -> None:
    denied = rules._replace(deny=(*rules.deny, ToolWord("docs/*", "*")))
    refused = denied.refusal(tool, can_ask=True)
    assert refused is not None
    assert refused.rule == "tools.deny"


@given(rules, names)
def test_a_refusal_names_a_word_that_matches(rules: ToolRules, tool: str) -> None:
    refused = rules.refusal(tool)
    if refused is None or not refused.word:
        return
    if refused.rule.startswith("tools."):
        assert fnmatchcase(tool, refused.word.removeprefix("docs/"))
    else:
        own = rules.own_capabilities.get(tool, rules.capabilities)
        assert any(fnmatchcase(capability, refused.word) for capability in own)


@given(rules, names)
def test_one_more_allowed_or_one_less_denied_word_refuses_nothing_new(
    rules: ToolRules, tool: str
) -> None:
    if rules.refusal(tool) is not None:
        return
    wider = rules._replace(
        allow=None if rules.allow is None else (*rules.allow, ToolWord("docs/x", "x")),
        deny=rules.deny[1:],
        ask=rules.ask[1:],
        capability_deny=rules.capability_deny[1:],
        capability_allow=(
            None if rules.capability_allow is None else (*rules.capability_allow, "more")
        ),
    )
    assert wider.refusal(tool) is None


@given(rules, names)
def test_a_tool_without_capabilities_is_not_refused_for_them(rules: ToolRules, tool: str) -> None:
    refused = rules._replace(capabilities=(), own_capabilities={}).refusal(tool)
    assert refused is None or refused.rule.startswith("tools.")


def test_an_allow_list_refuses_what_it_does_not_name() -> None:
    rules = ToolRules(allow=(ToolWord("docs/find", "find"),))
    assert rules.refusal("find") is None
    assert rules.refusal("drop") == Refusal("tools.allow")
    assert ToolRules(allow=()).refusal("find") == Refusal("tools.allow")


def test_a_tool_under_ask_is_refused_where_no_user_can_answer() -> None:
    rules = ToolRules(ask=(ToolWord("docs/*", "*"),))
    assert rules.refusal("find") == Refusal("tools.ask", "docs/*")
    assert rules.refusal("find", can_ask=True) is None


def test_every_capability_must_be_allowed_and_one_denied_is_enough() -> None:
    rules = ToolRules(capability_allow=("docs.*",), capabilities=("docs.read", "net"))
    assert rules.refusal("find") == Refusal("capabilities.allow")
    rules = ToolRules(capability_deny=("net",), capabilities=("docs.read", "net"))
    assert rules.refusal("find") == Refusal("capabilities.deny", "net")


def test_the_capabilities_of_a_tool_replace_those_of_its_server() -> None:
    own = {"drop": ("docs.write",), "ping": ()}
    rules = ToolRules(capability_deny=("docs.write",), capabilities=("docs.read",))
    rules = rules._replace(own_capabilities=own, capability_allow=("docs.write",))
    assert rules.refusal("find") == Refusal("capabilities.allow")
    assert rules.refusal("drop") == Refusal("capabilities.deny", "docs.write")
    assert rules.refusal("ping") is None
