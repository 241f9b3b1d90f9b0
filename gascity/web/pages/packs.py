"""Packs: the tree of imports, and what one adds and can execute."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request

from gascity.web.commands import searched_command, shown_command
from gascity.web.site import CitySite, Page, failed, is_name, matches, not_found, words_of


class PackNode(NamedTuple):
    """One import in the tree; `again` if its own imports are shown further up."""

    row: Mapping[str, Any]
    depth: int
    again: bool


async def pack_list(site: CitySite, request: Request) -> Page:
    """Return the imports as a tree."""
    words = words_of(request)
    answer = await site.commands.json("pack", "list")
    if answer.failed and not answer.value.get("imports"):
        return failed("Packs", "packs", "city pack list", answer.problems)
    rows = answer.value.get("imports", ())
    nodes = [
        node for node in _tree(rows) if matches(words, node.row["binding"], node.row["source"])
    ]
    values = {"nodes": nodes, "total": len(rows), "filters": {"q": " ".join(words)}}
    command = searched_command(words, "pack", "list", "--tree")
    return Page("pack_list.html", "Packs", "packs", command, values)


def _tree(rows: Sequence[Mapping[str, Any]]) -> Iterator[PackNode]:
    """Yield the imports below those that import them, each with its own once."""
    expanded: set[str] = set()

    def below(parent: str, depth: int) -> Iterator[PackNode]:
        for row in rows:
            if parent in row["parents"]:
                name = row["binding"]
                again = name in expanded
                expanded.add(name)
                yield PackNode(row, depth, again)
                if not again:
                    yield from below(name, depth + 1)

    roots = dict.fromkeys(parent for row in rows for parent in row["parents"])
    bound = {row["binding"] for row in rows}
    for root in (parent for parent in roots if parent not in bound):
        yield from below(root, 0)


async def pack_page(site: CitySite, request: Request) -> Page:
    """Return what one pack adds and can execute."""
    name = request.path_params["name"]
    if not is_name(name):
        return not_found("Unknown pack", "There is no such pack.", "packs", "city pack list")
    answer = await site.commands.json("pack", "show", name)
    command = shown_command("pack", "show", name)
    if answer.failed and len(answer.value) <= 2:
        if any(each["code"] == "unknown-pack" for each in answer.problems):
            return not_found("Unknown pack", answer.message + ".", "packs", "city pack list")
        return failed(name, "packs", command, answer.problems)
    values = {"name": name, "pack": answer.value, "problems": answer.value.get("problems", ())}
    return Page("pack.html", f"Pack {name}", "packs", command, values)
