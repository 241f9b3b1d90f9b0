"""`city order list`: what sets an order off, and that nothing does yet."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.shapes import ORDER_LIST, fits
from tests.support.command import Command, Ran

FILES = {
    "city.toml": (
        '[imports.crew]\nsource = "packs/crew"\n'
        '[[rigs]]\nname = "dock"\npath = "dock"\n[rigs.imports.night]\nsource = "packs/night"\n'
    ),
    "dock/": "",
    "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
    "packs/crew/orders/sweep.toml": (
        '[order]\ndescription = "Sweep the pier."\ntrigger = "cooldown"\ninterval = "24h"\n'
        'formula = "mol-sweep"\npool = "crew.hand"\n'
    ),
    "packs/crew/formulas/orders/bell/order.toml": (
        '[order]\ngate = "event"\non = "ship.landed"\nexec = "$PACK_DIR/bell.sh"\n'
    ),
    "packs/night/pack.toml": '[pack]\nname = "night"\n',
    "packs/night/orders/sweep/order.toml": 'trigger = "manual"\nexec = "true"\n',
}


def test_a_city_without_orders_says_so(run: Command, town: Callable[..., Path]) -> None:
    root = town()
    assert run("order", "list", cwd=root) == Ran(0, "No orders.\n", "")
    answer = run("order", "list", "--json", cwd=root).json
    assert answer == {"schema": 1, "orders": [], "run": False, "problems": []}


def test_orders_are_listed_with_what_sets_them_off_and_the_rig_they_are_for(
    run: Command, town: Callable[..., Path]
) -> None:
    assert run("order", "list", cwd=town(FILES)) == Ran(
        0,
        "3 orders (listed only; this version does not run orders):\n"
        "\n"
        "  bell   event ship.landed: exec\n"
        "         crew: packs/crew/formulas/orders/bell/order.toml\n"
        "\n"
        "  sweep  cooldown 24h: formula mol-sweep\n"
        "         Sweep the pier.\n"
        "         crew: packs/crew/orders/sweep.toml\n"
        "\n"
        "  sweep  manual: exec\n"
        "         night, in rig dock: packs/night/orders/sweep/order.toml\n"
        "         overrides packs/crew/orders/sweep.toml\n",
        "",
    )


def test_programs_get_the_same(run: Command, town: Callable[..., Path]) -> None:
    answer = run("order", "list", "--json", cwd=town(FILES)).json
    fits(answer, ORDER_LIST)
    keys = ("name", "rig", "trigger", "when", "action", "formula")
    assert [tuple(one[key] for key in keys) for one in answer["orders"]] == [
        ("bell", None, "event", "ship.landed", "exec", None),
        ("sweep", None, "cooldown", "24h", "formula", "mol-sweep"),
        ("sweep", "dock", "manual", None, "exec", None),
    ]


def test_an_orders_text_cannot_move_the_cursor(run: Command, town: Callable[..., Path]) -> None:
    text = 'trigger = "\\u001b[2J"\ndescription = "a\\u001b[31mb"\n'
    ran = run("order", "list", cwd=town({"orders/o.toml": text}))
    assert "\x1b" not in ran.out
