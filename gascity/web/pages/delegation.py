"""Delegation: the items that agents slung to others, as trees with durations and costs."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from starlette.requests import Request

from gascity.cli.context import CommandContext
from gascity.model.work import FINISHED, Run, Work
from gascity.store.port import Store
from gascity.web.commands import shown_command
from gascity.web.site import PAGE, CitySite, Page, matches, not_found, words_of

_MOST = 500  # items of one tree


class DelegatedItem(NamedTuple):
    """One item of a tree, with the time and the cost of its runs, and of all below it."""

    work: Work
    depth: int
    seconds: float
    cost: float
    total_cost: float
    children: int


def read_tree(store: Store, id: str, now: float) -> list[DelegatedItem] | None:
    """Return the whole tree that an item belongs to, parents before children; None if unknown."""
    root = store.work(id)
    seen = set()
    while root is not None and root.parent and root.id not in seen:
        seen.add(root.id)
        above = store.work(root.parent)
        if above is None:  # its record was deleted
            break
        root = above
    if root is None:
        return None
    children: dict[str, list[Work]] = {}
    level, count = [root.id], 1
    while level and count < _MOST:
        found = store.children(level)[: _MOST - count]
        for work in found:
            children.setdefault(work.parent, []).append(work)
        level = [work.id for work in found]
        count += len(found)
    return list(_nodes(store, root, children, 0, now))


def _nodes(
    store: Store, work: Work, children: dict[str, list[Work]], depth: int, now: float
) -> Iterator[DelegatedItem]:
    runs = store.runs(work=work.id)
    below = [
        list(_nodes(store, child, children, depth + 1, now)) for child in children.get(work.id, ())
    ]
    cost = sum(run.cost or 0.0 for run in runs)
    total = cost + sum(nodes[0].total_cost for nodes in below)
    yield DelegatedItem(work, depth, _seconds(runs, now), cost, total, len(below))
    for nodes in below:
        yield from nodes


def _seconds(runs: Sequence[Run], now: float) -> float:
    return sum(max(0.0, (run.ended or now) - run.started) for run in runs)


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
    nodes = await site.reader.read(lambda _, store: read_tree(store, id, time.time()), None)
    if nodes is None:
        message = f"There is no work item {id}."
        return not_found("Unknown work item", message, "delegation", "city work list")
    root = nodes[0].work
    values = {
        "nodes": nodes,
        "id": id,
        "root": root,
        "unfinished": sum(node.work.status not in FINISHED for node in nodes),
        "seconds": sum(node.seconds for node in nodes),
        "cost": nodes[0].total_cost,
    }
    command = shown_command("work", "tree", root.id)
    return Page("delegation.html", f"Delegation of {root.id}", "delegation", command, values)
