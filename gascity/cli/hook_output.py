"""`--hook-format`: text that a provider's hook adds to the conversation, in the provider's form.

Most providers add what a hook prints. Others read a JSON object: the provider file says which
(`hook_output`). Published packs pass the provider's name with `--hook-format`.
"""

from collections.abc import Iterable, Mapping

import click

from gascity.cli.output import print_stdout, write_content
from gascity.model.values import JsonObject

SESSION_START, PROMPT_SUBMIT = "SessionStart", "UserPromptSubmit"
# Set by hooks of published packs; it decides which keys the provider accepts.
_EVENT = "GC_HOOK_EVENT_NAME"

hook_format_option = click.option(
    "--hook-format",
    metavar="PROVIDER",
    help="Format the output as this provider's hooks expect it.",
)


def print_for_hook(
    lines: Iterable[str], provider: str | None, event: str, environ: Mapping[str, str]
) -> None:
    """Print lines for a hook of the provider; `event` is the usual event of the command."""
    listed = list(lines)
    if listed and not _print_object("\n".join(listed), provider, event, environ):
        print_stdout(*listed)


def print_content_for_hook(
    text: str, provider: str | None, event: str, environ: Mapping[str, str]
) -> None:
    """Like `print_for_hook`, for a text that is printed byte for byte."""
    if not _print_object(text, provider, event, environ):
        write_content(text)


def _print_object(text: str, provider: str | None, event: str, environ: Mapping[str, str]) -> bool:
    """Print the object that the provider reads; False if it takes plain text."""
    form = _form(provider) if provider else "text"
    if form == "text":
        return False
    text = text.rstrip("\n")
    if text:
        content = hook_object(form, text, environ.get(_EVENT) or event)
        import json

        write_content(json.dumps(content, ensure_ascii=False) + "\n")
    return True


def hook_object(form: str, text: str, event: str) -> JsonObject:
    """Return the JSON object of a form of `hook_output` for an event."""
    if form == "inject-steps":
        return {"injectSteps": [{"ephemeralMessage": text}]}
    if form == "context":
        return {"hookSpecificOutput": {"additionalContext": text}}
    match event:  # a provider refuses an object with keys that the event does not have
        case "Stop":
            return {"decision": "block", "reason": text}
        case "PreCompact":
            return {"systemMessage": text}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _form(provider: str) -> str:
    """Return `hook_output` of a provider; plain text for one that is not known."""
    from gascity.model.settings import ProviderFacts
    from gascity.providers.registry import provider_files
    from gascity.source.disk import Disk
    from gascity.source.providers import read_provider

    path = provider_files()[0].get(provider.strip().lower())
    layer = read_provider(Disk("/"), path) if path else None
    return ProviderFacts((layer,)).hook_output if layer else "text"
