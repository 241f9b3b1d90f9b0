"""Delegation: the items that agents slung to others, as trees with durations and costs."""

import time
from collections.abc import Iterator

from starlette.requests import Request

from gascity.cli.context import CommandContext
from gascity.control.delegation import DelegatedItem, delegation_root, read_tree
from gascity.model.work import FINISHED, Work
from gascity.store.port import Store
from gascity.web.commands import shown_command
from gascity.web.site import PAGE, CitySite, Page, matches, not_found, words_of

_MOST = 500  # items of one tree


async def delegation_list(site: CitySite, request: Request) -> Page:
    """Return the items from which others were delegated, newest first."""
    words = words_of(request)

    def read(_: CommandContext, store: Store) -> list[tuple[Work, int]]:
        roots = store.delegations(10 * PAGE if words else PAGE)
        found = [work for work in roots if matches(words, work.id, work.agent, work.title)]
        return [(work, store.child_count(work.id)) for work in found[:PAGE]]

    none: list[tuple[Work, int]] = []
    items = await site.reader.read(read, none)
    values = {"items": items, "filters": {"q": " ".join(words)}}
    return Page("delegation_list.html", "Delegation", "delegation", "city work list", values)


async def delegation_page(site: CitySite, request: Request) -> Page:
    """Return the tree that an item belongs to."""
    id = request.path_params["id"]

    def read(_: CommandContext, store: Store) -> DelegatedItem | None:
        work = store.work(id)
        root = delegation_root(store, work) if work is not None else None
        return read_tree(store, root, time.time(), most=_MOST) if root is not None else None

    tree = await site.reader.read(read, None)
    if tree is None:
        message = f"There is no work item {id}."
        return not_found("Unknown work item", message, "delegation", "city work list")
    nodes = list(_with_depth(tree))
    values = {
        "nodes": nodes,
        "id": id,
        "root": tree.work,
        "unfinished": sum(item.work.status not in FINISHED for item, _ in nodes),
        "seconds": sum(item.seconds for item, _ in nodes),
        "cost": tree.total_cost,
    }
    command = shown_command("work", "tree", tree.work.id)
    return Page("delegation.html", f"Delegation of {tree.work.id}", "delegation", command, values)


def _with_depth(item: DelegatedItem, depth: int = 0) -> Iterator[tuple[DelegatedItem, int]]:
    """Yield an item and all below it, parents before children, with their depth."""
    yield item, depth
    for child in item.children:
        yield from _with_depth(child, depth + 1)
