"""Changes: the effect on agents of what changed in the city's files since a git revision."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request

from gascity.web.commands import shown_command
from gascity.web.patches import PatchLine, parse_patch
from gascity.web.site import CitySite, Page, is_name, matches, words_of

_HEAD = "HEAD"
_MOST_PLACES = 4
_LONGEST = 200  # characters of a revision's name


class ChangedAgent(NamedTuple):
    """One agent's changes as `city diff --json` has them, with its prompt's diff in lines."""

    value: Mapping[str, Any]
    prompt: Sequence[PatchLine]
    places: Sequence[str]  # files and lines of the prompt's parts that changed


async def changes_page(site: CitySite, request: Request) -> Page:
    """Return what changed since the revision `rev`; with a wrong one, the problem."""
    revision = request.query_params.get("rev", "").strip() or _HEAD
    words = words_of(request)
    arguments = ("diff",) if revision == _HEAD else ("diff", revision)
    values: dict[str, Any] = {
        "revision": revision,
        "filters": {"q": " ".join(words), "rev": "" if revision == _HEAD else revision},
        "commit": "",
        "agents": [],
        "packs": (),
        "total": 0,
    }
    if not is_name(revision) or len(revision) > _LONGEST:
        message = "this is not the name of a commit, a branch or a tag"
        values["problems"] = [{"severity": "error", "code": "unknown-revision", "message": message}]
        return Page("changes.html", "Changes", "changes", "city diff", values)
    answer = await site.commands.json(*arguments)
    agents = answer.value.get("agents", ())
    values |= {
        "commit": str(answer.value.get("from", ""))[:12],
        "agents": [_changed(agent) for agent in agents if matches(words, agent["name"])],
        "packs": answer.value.get("packs", ()),
        "total": len(agents),
        "problems": answer.value.get("problems") or answer.problems,
    }
    return Page("changes.html", "Changes", "changes", shown_command(*arguments), values)


def _changed(agent: Mapping[str, Any]) -> ChangedAgent:
    prompt = agent["prompt"] or {"diff": "", "spans": ()}
    patch = parse_patch(str(prompt["diff"]).split("\n")[:-1])
    lines = [line for file in patch.files for line in file.lines]
    places = dict.fromkeys(f"{span['file']}:{span['line']}" for span in prompt["spans"])
    return ChangedAgent(agent, lines, list(places)[:_MOST_PLACES])
