"""Print the page for the gate."""

import sys
from datetime import date, datetime, timezone

from moon import age, phase


def page(day: date) -> str:
    return f"Hilltop Observatory, {day.isoformat()}\nMoon: {phase(day)}\nAge: {age(day):.0f} days\n"


if __name__ == "__main__":
    given = sys.argv[1:]
    print(page(date.fromisoformat(given[0]) if given else datetime.now(timezone.utc).date()), end="")
