"""Agent files that mean the same are the same, whatever their style."""

import pytest

from gascity.workdir.same_agent_file import same_agent

GENERATED = (
    "---\nname: a\ndescription: 'Does: x'\nmodel: inherit\ntools: Read, Grep\n---\nBe brief.\n"
)


@pytest.mark.parametrize(
    "own",
    [
        '---\ndescription: "Does: x"\ntools: [Read, Grep]\nname: a\n---\n\nBe brief.\n\n',
        "\ufeff---\r\nname: a\ndescription: >\n  Does: x\r\ntools: Read,Grep\r\n---\r\nBe brief.",
        "---\nname: a\ndescription: 'Does: x'\ntools:\n- Read\n- Grep\nmodel:\n---\nBe brief.",
    ],
)
def test_the_style_of_keys_and_lists_does_not_matter(own: str) -> None:
    assert same_agent(GENERATED, own, {"model": "inherit"})


@pytest.mark.parametrize(
    "own",
    [
        GENERATED.replace("Be brief", "Be long"),
        GENERATED.replace("Read, Grep", "Read"),
        GENERATED.replace("inherit", "opus"),
        GENERATED.replace("name: a\n", "name: a\nhooks: {}\n"),
        "---\nname: [\n---\nBe brief.\n",
        "Be brief.\n",
    ],
)
def test_another_value_key_or_prompt_is_another_agent(own: str) -> None:
    assert not same_agent(GENERATED, own, {"model": "inherit"})
